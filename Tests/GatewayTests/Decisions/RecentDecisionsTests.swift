import EventLoop
import Registry
import Testing
import Vocabulary

@testable import Gateway
@testable import Telemetry

@Suite("The latest decisions of a worker")
struct RecentDecisionsTests {
    private static func decision(
        _ time: Int64, _ denial: Denial? = nil, peer: String = "192.0.2.7:4711",
        change: (inout AccessLog.Entry) -> Void = { _ in }
    ) throws -> RecentDecision {
        var entry = AccessLog.Entry(denial: denial)
        change(&entry)
        return RecentDecision(entry, at: time, from: try SocketAddress(peer))
    }

    @Test("decisions are returned once, oldest first")
    func once() throws {
        let recent = RecentDecisions(limit: 4)
        for time in 1...3 { recent.add(try Self.decision(Int64(time), .proofStale)) }
        #expect(recent.take().decisions.map(\.time) == [1, 2, 3])
        #expect(recent.take().decisions.isEmpty)
        recent.add(try Self.decision(4, .proofStale))
        #expect(recent.take().decisions.map(\.time) == [4])
    }

    @Test("memory is bounded: the latest decisions stay, and dropped ones are counted")
    func bounded() throws {
        let recent = RecentDecisions(limit: 4)
        for time in 1...11 { recent.add(try Self.decision(Int64(time), .proofStale)) }
        let batch = recent.take()
        #expect(batch.decisions.map(\.time) == [8, 9, 10, 11] && batch.leftOut == 7)
        #expect(recent.take().leftOut == 0)
    }

    @Test("every refusal is kept, and a sample of the rest while somebody asks")
    func sample() throws {
        let recent = RecentDecisions()
        #expect(!recent.wants(isOrdinary: true) && recent.wants(isOrdinary: false) && !recent.wasAsked)
        _ = recent.take()
        #expect(recent.wasAsked)
        for time in 0..<RecentDecisions.sample {
            #expect(recent.wants(isOrdinary: true))
            recent.add(try Self.decision(Int64(time)))
        }
        #expect(!recent.wants(isOrdinary: true) && recent.wants(isOrdinary: false))
        // Refusals take nothing of that room.
        _ = recent.take()
        for time in 0..<100 { recent.add(try Self.decision(Int64(time), .proofStale)) }
        #expect(recent.wants(isOrdinary: true))
    }

    @Test("a decision shows only the client's network and the device's keyed id")
    func privacy() throws {
        let decision = try Self.decision(1, .deviceRevoked, peer: "[2001:db8:1:2::3]:4711") { entry in
            entry.device = DeviceLabel(id: 0x00ab_0000_0000_0001, app: Array("A.b".utf8))
            entry.disclosed.path = Array("/patients/1".utf8)
            entry.disclosed.clientAddress = Array("2001:db8:1:2::3".utf8)
        }
        #expect(decision.client == "2001:db8:1::/48" && decision.device == "00ab000000000001" && decision.app == "A.b")
        #expect(try Self.decision(1).client == "192.0.2.0/24")
        #expect(!"\(decision)".contains("patients") && decision.traceID == nil)
        let traced = try Self.decision(1) {
            $0.trace = TraceContext(id: TraceID(high: 1, low: 0xff), request: 2, flags: 0, parent: 0, isRecorded: false)
        }
        #expect(traced.traceID == "000000000000000100000000000000ff")
    }
}
