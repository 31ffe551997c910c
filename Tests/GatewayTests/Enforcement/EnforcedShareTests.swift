import Cryptography
import Testing
import Vocabulary

@testable import Gateway

@Suite("The share of devices on which a route is enforced")
struct EnforcedShareTests {
    private let library: LibraryContext
    private let keys: [KeyID]

    init() throws {
        let library = try LibraryContext()
        self.library = library
        keys = try (0..<1_000).compactMap { number in
            let text = Array("key \(number)".utf8)
            return KeyID(digest: try library.sha256(of: text.span).span)
        }
    }

    private func chosen(_ percent: Int, of route: UInt8 = 1) throws -> Set<KeyID> {
        let secret = [UInt8](repeating: route, count: 32)
        let share = EnforcedShare(try AuthenticationKey(secret.span, library), percent: percent)
        return Set(keys.filter(share.includes))
    }

    @Test("it has about that many devices, and a larger share keeps those of a smaller one")
    func sizes() throws {
        var before: Set<KeyID> = []
        for percent in [0, 1, 10, 25, 50, 99] {
            let now = try chosen(percent)
            #expect(now.isSuperset(of: before))
            // The keys are the same in each run.
            #expect(abs(now.count - percent * 10) <= 45, "\(percent) %: \(now.count)")
            before = now
        }
        #expect(try chosen(0).isEmpty)
    }

    @Test("routes choose different devices")
    func routes() throws {
        let (one, other) = (try chosen(50), try chosen(50, of: 2))
        #expect((150...350).contains(one.intersection(other).count))
    }
}
