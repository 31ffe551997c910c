import EventLoop
import Glibc
import Testing
import Vocabulary

@testable import Registry

/// A process that has released its registry, with a socket in place of the other process.
@Suite("The store of a process that has released its registry")
struct RemoteStoreTests {
    private let loop: Loop
    private let store: RemoteStore
    private let other: Int32
    private let key: KeyID
    private final class Seen {
        var signals: [StoreSignal] = []
        var results: [Result<FoundDevice?, StoreError>] = []
    }
    private let seen = Seen()

    init() throws {
        let digest = [UInt8](repeating: 7, count: 32)
        let known = KeyID(digest: digest.span)
        key = try #require(known)
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
        loop = try Loop()
        other = ends[1]
        store = RemoteStore(StoreIdentity(store: RandomID(), epoch: RandomID()), descriptor: ends[0])
        store.start(on: loop, at: 0) { [seen] in seen.signals.append($0) }
    }

    private func find() { store.find(key) { [seen] in seen.results.append($0) } }

    private func answer(_ text: String) {
        let bytes = Array(text.utf8)
        #expect(send(other, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
        run()
    }

    private func run() {
        let timer = LoopTimer(loop: loop, interval: .milliseconds(5)) { [loop] in loop.stop() }
        withExtendedLifetime(timer) { loop.run() }
    }

    @Test("an answer reaches the look-up with its token, once")
    func answers() {
        find()
        find()
        answer("none 2")
        answer("none 2")
        #expect(seen.results.count == 1)
        answer("failed 1")
        #expect(seen.results.count == 2 && store.isAvailable)
        close(other)
    }

    @Test("an opened registry makes the records from before be read again")
    func opened() {
        answer("opened")
        guard case .reopened = seen.signals.first, seen.signals.count == 1 else {
            Issue.record("\(seen.signals)")
            return
        }
        close(other)
    }

    @Test(
        "anything that is no message ends the channel, and look-ups fail",
        arguments: ["nonsense", "found 1 12", "confirmed twice", "find 1 07", "", "none 18446744073709551616"])
    func malformed(text: String) {
        find()
        answer(text.isEmpty ? " " : text)
        #expect(!store.isAvailable)
        find()
        #expect(seen.results.count == 2)
        for result in seen.results { #expect(throws: StoreError.self) { try result.get() } }
        #expect(seen.signals.isEmpty)
        close(other)
    }

    @Test("the end of the other process fails what was asked, and nothing is confirmed")
    func ended() {
        find()
        close(other)
        run()
        #expect(!store.isAvailable && seen.results.count == 1 && seen.signals.isEmpty)
    }

    @Test("counters and operations are refused")
    func refused() throws {
        var outcomes: [CounterOutcome] = []
        let entry = CounterEntry(
            device: try #require(DeviceID(1)), binding: key, counter: 5, epoch: RandomID(), shown: [], mode: .unspent)
        store.commit([entry]) { _, outcome in outcomes.append(outcome) }
        #expect(outcomes == [.storeUnavailable])
        var replies: [Result<RegistryReply, StoreError>] = []
        store.perform(.renewEpoch, at: 0) { replies.append($0) }
        #expect(replies == [.failure(.unavailable)])
        close(other)
    }
}
