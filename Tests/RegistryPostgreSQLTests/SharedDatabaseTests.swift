import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("Gateways that share a database", .enabled(if: PostgreSQLServer.shared != nil))
struct SharedDatabaseTests {
    private let place: PostgreSQLPlace
    private let first: AskedStore
    private let second: AskedStore

    init() throws {
        place = try PostgreSQLPlace()
        first = try AskedStore(place)
        second = try AskedStore(place)
    }

    /// Lets both serve until the condition holds for the second.
    private func hears(_ condition: @escaping () -> Bool) -> Bool { second.run(until: condition) }

    @Test("the gateways have one store id and epoch, whichever starts first")
    func identity() throws {
        #expect(first.identity == second.identity)
    }

    @Test("gateways that open an empty database concurrently agree")
    func openedAtOnce() async throws {
        let settings = place.server.settings(try place.server.makeDatabase())
        let identities = try await withThrowingTaskGroup(of: StoreIdentity.self) { group in
            for _ in 0..<6 { group.addTask { try DatabaseAccess(settings, nil, making: true).identity } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(identities.count == 6)
        #expect(Set(identities.map(\.store)).count == 1)
        #expect(Set(identities.map(\.epoch)).count == 1)
    }

    @Test("a value committed at one gateway is refused at the other, and an unused one accepted")
    func replayedElsewhere() throws {
        let id = try first.populate(1)[0]
        // Both know the device at 0.
        #expect(try first.find(1)?.window.highest == 0)
        #expect(try second.find(1)?.window.highest == 0)
        #expect(try first.commit(id, 1, 5) == .committed)
        #expect(
            try second.commit([
                second.entry(id, 1, 5), second.entry(id, 1, 4), second.entry(id, 1, 3, mode: .unspent),
            ]) == [.replayed, .late(highest: 5), .committed])
        // The second one's workers learn what it has learnt.
        let windows = second.changes.compactMap { change -> CounterWindow? in
            if case .window(let window, id) = change { window } else { nil }
        }
        #expect(windows.contains { $0.highest == 5 })
        #expect(try first.commit(id, 1, 3, mode: window(1024)) == .replayed)
    }

    @Test("a value used at both gateways at once is committed once")
    func contended() throws {
        let ids = try first.populate(3)
        for (index, store) in [first, second].enumerated() {
            for number in 1...3 { _ = try store.find(number) }
            #expect(index < 2)
        }
        var committed: [[UInt32]: Int] = [:]
        var outcomes: [CounterOutcome] = []
        var asked = 0
        for counter: UInt32 in 1...40 {
            for store in [first, second] {
                let entries = ids.enumerated().map { store.entry($1, $0 + 1, counter, mode: .unspent) }
                asked += entries.count
                store.backend.commit(entries) { index, outcome in
                    outcomes.append(outcome)
                    if outcome == .committed { committed[[UInt32(index), counter], default: 0] += 1 }
                }
            }
        }
        #expect(runBoth { outcomes.count == asked })
        #expect(committed.values.allSatisfy { $0 == 1 })
        // None is lost but where too many others came in between, which is said.
        let given = outcomes.count { $0 == .storeUnavailable }
        #expect(committed.count + given >= 120)
        #expect(outcomes.allSatisfy { [.committed, .replayed, .storeUnavailable].contains($0) })
    }

    /// Serves the loops of both in turn.
    private func runBoth(until condition: @escaping () -> Bool) -> Bool {
        let deadline = Instant.now + .seconds(60)
        while !condition(), Instant.now < deadline {
            for store in [first, second] {
                let pause = LoopTimer(loop: store.loop, interval: .milliseconds(2)) { store.loop.stop() }
                withExtendedLifetime(pause) { store.loop.run() }
            }
        }
        return condition()
    }

    @Test("a revocation or ended binding at one gateway refuses values accepted at the other")
    func revokedElsewhere() throws {
        let ids = try first.populate(2)
        // Nothing is left to be heard, so that what is known from here on stays known.
        let confirmed = second.confirmations
        #expect(hears { second.confirmations >= confirmed + 3 })
        for (index, id) in ids.enumerated() {
            #expect(try second.commit(id, index + 1, 1) == .committed)
        }
        try first.perform(.revoke(ids[0]))
        try first.perform(.endBinding(Fixture.bindingKey(2)))
        // Before it has heard: the database decides.
        #expect(
            try second.commit([second.entry(ids[0], 1, 2), second.entry(ids[1], 2, 2)])
                == [.deviceRevoked, .bindingEnded])
        #expect(hears { second.closed.count == 2 })
        #expect(second.closed == [Fixture.bindingKey(1), Fixture.bindingKey(2)])
        try first.perform(.restore(ids[0]))
        #expect(try second.commit(ids[0], 1, 2) == .committed)
    }

    @Test("a revocation is learned from its notification without polling")
    func notified() throws {
        let ids = try first.populate(1)
        #expect(try second.commit(ids[0], 1, 1) == .committed)
        try first.perform(.revoke(ids[0]))
        // No tick comes within the minute that this waits at most, and nothing else is asked.
        #expect(second.run(ticks: .seconds(600)) { second.closed == [Fixture.bindingKey(1)] })
    }

    @Test("changes are found by polling when notifications are lost")
    func lookedFor() throws {
        let ids = try first.populate(3)
        // Every notification has been followed.
        #expect(hears { second.changes.count { if case .device = $0 { true } else { false } } == 3 })
        let confirmed = second.confirmations
        #expect(hears { second.confirmations >= confirmed + 3 })
        let heard = second.changes.count
        // As from a gateway whose notification was lost: written by hand.
        _ = try place.execute(
            """
            UPDATE device SET revoked_at = 7 WHERE id = \(ids[0]); UPDATE feed SET last = last + 1;
            INSERT INTO change (seq, device, changed_at) SELECT last, \(ids[0]), 1000 FROM feed
            """)
        #expect(hears { second.closed.contains(Fixture.bindingKey(1)) })
        #expect(second.changes.count > heard)
    }

    @Test("missed changes end the connection and clear memory")
    func missed() throws {
        let ids = try first.populate(1)
        #expect(hears { second.changes.contains { if case .device = $0 { true } else { false } } })
        _ = try place.execute(
            """
            UPDATE feed SET last = last + 3;
            INSERT INTO change (seq, device, changed_at) SELECT last, \(ids[0]), 1000 FROM feed
            """)
        #expect(hears { second.recoveries == 1 })
        #expect(second.failures == ["changes were missed"])
        #expect(try second.commit(ids[0], 1, 1) == .committed)
    }

    @Test("a nonce or token is used once across all gateways")
    func singleUse() throws {
        let request = first.initialization(1)
        guard case .registered = try first.initialize(request) else { throw AskedStore.OtherReply() }
        #expect(try second.initialize(second.initialization(2, nonce: request.nonce)).refusal == .nonceUsed)
        guard case .registered = try second.initialize(second.initialization(2)) else { throw AskedStore.OtherReply() }
        let token = AdmissionGrant.token(Fixture.token(1), subject: Fixture.subject(1))
        #expect(try first.bind(first.keyBinding(1, key: 1, nonce: 1, counter: 1, admission: token)).kind == .first)
        #expect(
            try second.bind(second.keyBinding(2, key: 2, nonce: 2, counter: 1, admission: token)).refusal == .tokenUsed)
    }

    @Test("a key bound at two gateways at once is bound once")
    func boundOnce() throws {
        for number in 1...2 {
            guard case .registered = try first.initialize(first.initialization(number)) else {
                throw AskedStore.OtherReply()
            }
        }
        var verdicts: [KeyBindingVerdict] = []
        for (index, store) in [first, second].enumerated() {
            let request = store.keyBinding(index + 1, key: 9, nonce: index, counter: 1)
            store.backend.perform(.bindKey(request), at: 1_000) { result in
                if case .success(.keyBinding(let verdict)) = result { verdicts.append(verdict) }
            }
        }
        #expect(runBoth { verdicts.count == 2 })
        #expect(verdicts.compactMap(\.kind) == [.first])
        #expect(verdicts.compactMap(\.refusal) == [.keyBound])
    }

    @Test("an epoch drawn at one gateway reaches the other at its next poll")
    func epoch() throws {
        let id = try first.populate(1)[0]
        let outstanding = second.entry(id, 1, 1)
        try first.perform(.renewEpoch)
        #expect(second.identity != first.identity)
        // Before it has looked: the database knows better, and nothing is written.
        #expect(try second.commit([outstanding]) == [.epochChanged])
        #expect(hears { second.identity == first.identity })
        #expect(try second.commit(id, 1, 1) == .committed)
    }
}

@Suite("An import into a database", .enabled(if: PostgreSQLServer.shared != nil))
struct ImportBesideGatewayTests {
    @Test("an import sees the gateways that use the database until they have gone")
    func users() throws {
        let place = try PostgreSQLPlace()
        do {
            let gateway = try AskedStore(place)
            #expect(try place.openAtRest().otherUsers() == 2)
            withExtendedLifetime(gateway) {}
        }
        let registry = try place.openAtRest()
        // The server may need a moment to notice.
        let deadline = Instant.now + .seconds(60)
        while try registry.otherUsers() > 0, Instant.now < deadline {}
        #expect(try registry.otherUsers() == 0)
    }

    @Test("a gateway that joined during an import refuses everything until it is restarted")
    func slippedIn() throws {
        let place = try PostgreSQLPlace()
        let gateway = try AskedStore(place)
        #expect(try gateway.find(1) == nil)
        try place.openAtRest().load { loading throws(RegistryLoadError) in
            try loading.add(ExportSample.head, line: 1)
            try loading.add(ExportSample.leastDevice, line: 2)
        }
        #expect(gateway.run { gateway.failures.contains { $0.contains("replaced by another store while in use") } })
        #expect(throws: StoreError.unavailable) {
            try gateway.perform(.register(Fixture.identity(7), binding: Fixture.bindingKey(7)))
        }
        #expect(throws: StoreError.unavailable) { try gateway.find(1) }
        let again = try AskedStore(place)
        #expect(try again.details(.show(.hardwareKey(Fixture.hardwareKey(1)))).device.state == .pending)
        #expect(throws: StoreError.deviceUnknown) { try again.perform(.show(.hardwareKey(Fixture.hardwareKey(7)))) }
    }
}
