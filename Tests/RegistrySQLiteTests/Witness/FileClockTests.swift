import EventLoop
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("Wrong clocks, and a file")
struct FileClockTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    private static let day: Int64 = 86_400

    @Test("a clock set back is reported on opening, whatever was written before")
    func setBack() throws {
        _ = try file.open()
        _ = try file.open(clockAheadBy: -WitnessNotice.clockTolerance)
        #expect(file.heard() == [])
        _ = try file.open(clockAheadBy: -Self.day)
        let heard = file.heard()
        guard case .clockBehind(let seconds)? = heard.first else { Issue.record("\(heard)"); return }
        // Seconds pass between the openings, so it is less than a day by these, and more where the time is rounded.
        #expect((Self.day - 60...Self.day + 60).contains(seconds))
        // It does not forget that it was later.
        _ = try file.open(clockAheadBy: -Self.day)
        #expect(file.heard().count == 1)
        _ = try file.open()
        #expect(file.heard() == [])
    }

    @Test("a clock set back with the store makes no ended key valid again")
    func ended() throws {
        let now = WallClock.seconds
        var store: RegistryStore? = try file.open()
        try store?.populate(2)
        try file.keep("copy")
        _ = try store?.endBinding(Fixture.bindingKey(1), at: now)
        store = nil
        try file.putBack("copy")
        // What the journal says of the key lies ahead by this clock.
        store = try file.open(clockAheadBy: -Self.day)
        #expect(store?.commit(1, 1) == .bindingEnded)
        #expect(store?.commit(2, 1) == .committed)
    }
}
