import Glibc
import Testing

@testable import Upstream

@Suite("Connection failures of servers")
struct UpstreamFailureTests {
    /// The failures in the order of their progress towards a request.
    private static let inOrder: [UpstreamFailure] = [
        .unresolved, .unreachable(server: "localhost:443", errno: ENETUNREACH),
        .unreachable(server: "localhost:443", errno: ECONNREFUSED),
        .connectTimeout(server: "localhost:443"),
        .disconnected, .tls(server: "localhost:443", reason: "certificate has expired"),
    ]

    @Test("the failure that got further is reported, whichever address was tried first")
    func further() {
        for (place, less) in Self.inOrder.enumerated() {
            for more in Self.inOrder[place...] {
                #expect(less.orFurther(more) == more)
                #expect(more.orFurther(less) == more)
            }
        }
    }

    @Test("of failures that got equally far the first is reported")
    func first() {
        let expired = UpstreamFailure.tls(server: "localhost:443", reason: "certificate has expired")
        let other = UpstreamFailure.tls(server: "localhost:443", reason: "hostname mismatch")
        #expect(expired.orFurther(other) == expired && other.orFurther(expired) == other)
        let unreachable = UpstreamFailure.unreachable(server: "localhost:443", errno: ENETUNREACH)
        #expect(unreachable.orFurther(.unreachable(server: "localhost:443", errno: EHOSTUNREACH)) == unreachable)
    }
}
