import EventLoop
import Foundation
import RegistryMemory
import Synchronization
import Testing

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

/// A store in a file with its witness in another directory, opened and closed as processes do; and copies of it.
final class WitnessedFile {
    let scratch: Scratch
    let aside: Scratch
    private let notices = NoticeLog()

    init() throws {
        scratch = try Scratch()
        aside = try Scratch()
    }

    var journalPath: String { aside.file("revocations") }
    var markPath: String { aside.file("revocations.mark") }

    func settings(acceptsLoss: Bool = false, acceptsLostStore: Bool = false) -> WitnessSettings {
        WitnessSettings(path: journalPath, acceptsLoss: acceptsLoss, acceptsLostStore: acceptsLostStore) { [notices] in
            notices.append($0)
        }
    }

    func open(acceptsLoss: Bool = false) throws -> RegistryStore {
        try RegistryStore(path: scratch.file(), creating: true, witness: settings(acceptsLoss: acceptsLoss))
    }

    /// With a clock that is wrong by some seconds.
    func open(clockAheadBy seconds: Int64) throws -> RegistryStore {
        var settings = settings()
        settings.clock = { WallClock.seconds + seconds }
        return try RegistryStore(path: scratch.file(), creating: true, witness: settings)
    }

    /// What the witness said since it was asked last.
    func heard() -> [WitnessNotice] { notices.take() }

    /// Keeps the store's files as they are now, running or not.
    func keep(_ name: String, withLog: Bool = true) throws {
        for suffix in withLog ? ["", "-wal"] : [""] {
            guard FileManager.default.fileExists(atPath: scratch.file() + suffix) else { continue }
            try FileManager.default.copyItem(atPath: scratch.file() + suffix, toPath: scratch.file(name) + suffix)
        }
    }

    /// Puts them back. - Precondition: the store is closed.
    func putBack(_ name: String) throws {
        for suffix in ["", "-wal"] {
            try? FileManager.default.removeItem(atPath: scratch.file() + suffix)
            guard FileManager.default.fileExists(atPath: scratch.file(name) + suffix) else { continue }
            try FileManager.default.copyItem(atPath: scratch.file(name) + suffix, toPath: scratch.file() + suffix)
        }
    }

    func journal() throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(filePath: journalPath))) }
    func write(_ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(filePath: journalPath)) }
    var revocations: Revocations { get throws { try JournalText.read(try journal(), marked: nil).revocations } }
    func mark() throws -> CommitMark? { try JournalFile.read(markPath).flatMap(CommitMark.newest) }
}

private final class NoticeLog: Sendable {
    private let notices = Mutex<[WitnessNotice]>([])

    func append(_ notice: WitnessNotice) { notices.withLock { $0.append(notice) } }

    func take() -> [WitnessNotice] {
        notices.withLock { notices in
            defer { notices = [] }
            return notices
        }
    }
}
