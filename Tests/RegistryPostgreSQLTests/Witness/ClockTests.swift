import EventLoop
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("Wrong clocks")
struct ClockTests {
    private static let day: Int64 = 86_400

    @Test("an export from the future is refused", arguments: StoreKind.allCases)
    func madeAhead(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let now = WallClock.seconds
        func load(_ time: Int64, tokensRemoved: Int64 = 0) throws {
            try place.openAtRest().load(at: now) { loading throws(RegistryLoadError) in
                try loading.add(
                    .head(
                        ExportHead(
                            time: time, store: ExportSample.store, revocationList: 1, tokensRemoved: tokensRemoved,
                            secretCheck: nil)), line: 1)
            }
        }
        #expect(throws: RegistryLoadError.refused(line: 1, .madeAhead)) { try load(now + Self.day) }
        try load(now + 200)
        // That of a clock which was ahead does not keep all tokens out.
        try load(now, tokensRemoved: now + 400 * Self.day)
        #expect(try tokensRemoved(place) <= now + SingleUse.longestTokenLife + 200)
    }

    private func tokensRemoved(_ place: any StorePlace) throws -> Int64 {
        let page = try place.openAtRest().exportPage(from: .start)
        guard case .head(let head)? = page.records.first else { throw AskedStore.OtherReply() }
        return head.tokensRemoved
    }

    @Test(
        "after a clock ahead, a fresh epoch limits the refusal of tokens to one token life",
        arguments: StoreKind.allCases)
    func renewed(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let now = WallClock.seconds
        try place.refuseTokens(until: now + 400 * Self.day)
        var store: AskedStore? = try AskedStore(place)
        store?.time = now
        try store?.perform(.renewEpoch, at: now)
        store = nil
        #expect(try tokensRemoved(place) == now + SingleUse.longestTokenLife)
        // What is refused for no longer stays refused for as long.
        try place.refuseTokens(until: now + 60)
        store = try AskedStore(place)
        try store?.perform(.renewEpoch, at: now)
        store = nil
        #expect(try tokensRemoved(place) == now + 60)
    }

    @Test("token refusal beyond one token life is reported")
    func refusing() {
        let most = SingleUse.longestTokenLife + WitnessNotice.clockTolerance
        #expect(WitnessNotice(tokensRefusedUntil: 1_000 + most, at: 1_000) == nil)
        #expect(WitnessNotice(tokensRefusedUntil: 1_001 + most, at: 1_000) == .tokensRefused(seconds: most + 1))
        #expect(WitnessNotice(clock: 1_000, database: 1_030) == nil)
        #expect(WitnessNotice(clock: 1_000, database: 969) == .clocksApart(seconds: 31))
    }

    @Test(
        "one gateway's clock ahead removes nothing still valid from the database",
        .enabled(if: PostgreSQLServer.shared != nil))
    func fleet() throws {
        let place = try PostgreSQLPlace()
        _ = try place.open()
        let now = WallClock.seconds
        _ = try place.execute(
            "INSERT INTO used_token (id, expires_at) SELECT decode(repeat(v, 32), 'hex'), e FROM (VALUES ('01', \(now + 600)), "
                + "('02', \(now - 600))) AS used (v, e)")
        let settings = place.server.settings(place.database)
        let database = try RegistryDatabase(atRest: settings, making: false, isLoading: false)
        _ = try DatabaseUpkeep(database).expire(at: now + 400 * Self.day)
        let left = try place.execute("SELECT expires_at FROM used_token")
        #expect(left.rows == 1)
        #expect(try place.execute("SELECT tokens_removed FROM store").text(0, 0) == "\(now - 600)")
    }
}
