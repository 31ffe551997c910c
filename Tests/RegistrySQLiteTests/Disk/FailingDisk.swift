import Chance
import Foundation
import GRDBSQLite
import Glibc
import Synchronization

@testable import Registry

/// A directory as if it lay on a disk of its own, for SQLite: the power can fail, and so can each operation.
///
/// The files of the directory are what the kernel has of them; after a cut, what was synced, and any part of the rest. Names are no more durable than content: files come and go with the next sync of the
/// directory, which SQLite makes with the first sync of a new journal or log.
final class FailingDisk: Sendable {
    enum Operation: CaseIterable {
        case open, read, write, truncate, sync, delete
    }

    /// Operations that fail from some point on.
    struct Fault {
        var operations: Set<Operation>
        /// How many of them go well before.
        var after = 0
        /// How many fail.
        var times = Int.max
        /// Whether it is for lack of room: then only those fail that make a file larger.
        var isFull = false
    }

    private struct State {
        var generator: SeededGenerator
        var images: [String: DiskImage] = [:]
        /// Which files they are.
        var identities: [String: StoreFile.Identity] = [:]
        /// Files made since the directory was synced last.
        var fresh: Set<String> = []
        /// Files deleted since then, as they were on the disk.
        var undead: [String: [UInt8]] = [:]
        /// Writing operations so far.
        var changes = 0
        var cutAt: Int?
        var isOff = false
        var fault: Fault?
        var isSyncHeld = false
        var heldSyncs = 0
    }

    let directory: String
    private let state: Mutex<State>

    /// - Parameter directory: one that exists, with the path that SQLite is given.
    init(_ directory: String, seed: UInt64) {
        self.directory = directory
        state = Mutex(State(generator: SeededGenerator(seed: seed)))
        DiskVFS.add(self)
    }

    deinit {
        DiskVFS.remove(directory)
    }

    // MARK: - What a test does to it

    /// How many operations have changed something.
    var changes: Int { state.withLock { $0.changes } }

    /// The power fails when so many more operations have changed something: in the midst of the next one.
    func cut(after changes: Int) {
        state.withLock { $0.cutAt = $0.changes + changes }
    }

    var isOff: Bool { state.withLock { $0.isOff } }

    /// The power fails now.
    func cut() { state.withLock { cut(&$0) } }

    /// Files that are still open stay useless. No power cut is due any more.
    func powerOn() {
        state.withLock {
            $0.isOff = false
            $0.cutAt = nil
        }
    }

    func fail(_ fault: Fault?) { state.withLock { $0.fault = fault } }

    /// Whether the fault has come to be.
    var hasFailed: Bool { state.withLock { $0.fault.map { $0.times <= 0 } ?? false } }

    /// Lets no sync return from here on, or lets all.
    func holdSyncs(_ isHeld: Bool) { state.withLock { $0.isSyncHeld = isHeld } }

    /// Syncs that wait.
    var heldSyncs: Int { state.withLock { $0.heldSyncs } }

    // MARK: - What SQLite does. The codes are its own

    func open(_ path: String, creates: Bool) -> Int32 {
        state.withLock { state in
            if fails(.open, &state) { return SQLITE_CANTOPEN }
            look(at: path, &state)
            if state.images[path] == nil {
                if creates {
                    guard changes(&state) else { return SQLITE_CANTOPEN }
                    guard FileManager.default.createFile(atPath: path, contents: nil) else { return SQLITE_CANTOPEN }
                    look(at: path, &state)
                    state.fresh.insert(path)
                } else {
                    return SQLITE_CANTOPEN
                }
            }
            return SQLITE_OK
        }
    }

    func size(_ path: String) -> Int? {
        state.withLock { $0.isOff ? nil : $0.images[path]?.content.count }
    }

    /// Fills the buffer, as far as there is content.
    func read(_ path: String, at offset: Int, into buffer: UnsafeMutableRawBufferPointer) -> Int32 {
        state.withLock { state in
            guard !fails(.read, &state), let image = state.images[path] else { return SQLITE_IOERR | 1 << 8 }
            let part = image.content[min(offset, image.content.count)...].prefix(buffer.count)
            buffer.copyBytes(from: part)
            guard part.count < buffer.count else { return SQLITE_OK }
            // The rest is to be zeros then.
            for index in part.count..<buffer.count { buffer[index] = 0 }
            return SQLITE_IOERR | 2 << 8
        }
    }

    func write(_ path: String, _ bytes: [UInt8], at offset: Int) -> Int32 {
        state.withLock { state in
            let isLarger = offset + bytes.count > state.images[path]?.content.count ?? 0
            if state.fault?.isFull != true || isLarger, fails(.write, &state) {
                return state.fault?.isFull == true ? SQLITE_FULL : SQLITE_IOERR | 3 << 8
            }
            // Before the power fails: a part of it may be on the disk.
            if !state.isOff {
                state.images[path]?.write(bytes, at: offset)
                update(path) { descriptor in
                    // A test's file: what cannot be written there shows in the test.
                    _ = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
                }
            }
            return changes(&state) ? SQLITE_OK : SQLITE_IOERR | 3 << 8
        }
    }

    func truncate(_ path: String, to size: Int) -> Int32 {
        state.withLock { state in
            if fails(.truncate, &state) { return SQLITE_IOERR | 6 << 8 }
            state.images[path]?.truncate(to: size)
            update(path) { _ = ftruncate($0, off_t(size)) }
            return changes(&state) ? SQLITE_OK : SQLITE_IOERR | 6 << 8
        }
    }

    /// - Parameter andDirectory: whether SQLite's own VFS syncs the directory with this.
    func sync(_ path: String, andDirectory: Bool) -> Int32 {
        wait()
        return state.withLock { state in
            if fails(.sync, &state) {
                if !state.isOff { state.images[path]?.failToSync() }
                return SQLITE_IOERR | 4 << 8
            }
            guard changes(&state) else { return SQLITE_IOERR | 4 << 8 }
            state.images[path]?.sync()
            if andDirectory { syncDirectory(&state) }
            return SQLITE_OK
        }
    }

    func delete(_ path: String, syncsDirectory: Bool) -> Int32 {
        state.withLock { state in
            if fails(.delete, &state) { return SQLITE_IOERR | 10 << 8 }
            guard FileManager.default.fileExists(atPath: path) else { return SQLITE_IOERR | 23 << 8 }
            guard changes(&state) else { return SQLITE_IOERR | 10 << 8 }
            look(at: path, &state)
            let image = state.images.removeValue(forKey: path)
            // Nothing is known of the content of a file that was never durable.
            state.identities[path] = nil
            if state.fresh.remove(path) == nil {
                state.undead[path] = image?.cut(&state.generator)
            }
            try? FileManager.default.removeItem(atPath: path)
            if syncsDirectory { syncDirectory(&state) }
            return SQLITE_OK
        }
    }

    /// Whether there is such a file; like SQLite's own VFS, which takes an empty one for none.
    func exists(_ path: String) -> Bool {
        state.withLock { state in
            look(at: path, &state)
            return state.images[path]?.content.isEmpty == false
        }
    }

    // MARK: -

    /// Takes a file as it is that was not written through SQLite: its writer has synced it, and its name.
    private func look(at path: String, _ state: inout State) {
        let found = StoreFile.identity(of: path)
        if found == state.identities[path] { return }
        state.identities[path] = found
        state.images[path] =
            found == nil ? nil : DiskImage([UInt8](FileManager.default.contents(atPath: path) ?? Data()))
        state.fresh.remove(path)
    }

    private func update(_ path: String, _ body: (Int32) -> Void) {
        let descriptor = Glibc.open(path, O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { Glibc.close(descriptor) }
        body(descriptor)
    }

    private func wait() {
        guard state.withLock({ $0.isSyncHeld }) else { return }
        state.withLock { $0.heldSyncs += 1 }
        while state.withLock({ $0.isSyncHeld }) { usleep(1_000) }
        state.withLock { $0.heldSyncs -= 1 }
    }

    private func fails(_ operation: Operation, _ state: inout State) -> Bool {
        if state.isOff { return true }
        guard let fault = state.fault, fault.operations.contains(operation) else { return false }
        if fault.after > 0 {
            state.fault?.after -= 1
            return false
        }
        guard fault.times > 0 else { return false }
        state.fault?.times -= 1
        return true
    }

    /// Counts one that changes something. - Returns: whether there is still power.
    private func changes(_ state: inout State) -> Bool {
        state.changes += 1
        if let cutAt = state.cutAt, state.changes > cutAt { cut(&state) }
        return !state.isOff
    }

    private func syncDirectory(_ state: inout State) {
        state.fresh.removeAll()
        state.undead.removeAll()
    }

    private func cut(_ state: inout State) {
        guard !state.isOff else { return }
        state.isOff = true
        // In an order of its own: the seed is to bring everything back.
        for path in state.images.keys.sorted() {
            guard let image = state.images[path] else { continue }
            save(image.cut(&state.generator), path)
            if state.fresh.contains(path), Bool.random(using: &state.generator) {
                try? FileManager.default.removeItem(atPath: path)
            }
        }
        for path in state.undead.keys.sorted() where !FileManager.default.fileExists(atPath: path) {
            if Bool.random(using: &state.generator), let content = state.undead[path] {
                _ = FileManager.default.createFile(atPath: path, contents: Data(content))
            }
        }
        state.images.removeAll()
        state.identities.removeAll()
        syncDirectory(&state)
    }

    /// Writes in place, so that open handles and remembered identities stay valid.
    private func save(_ content: [UInt8], _ path: String) {
        guard let handle = FileHandle(forUpdatingAtPath: path) else { return }
        try? handle.truncate(atOffset: 0)
        try? handle.write(contentsOf: Data(content))
        try? handle.close()
    }
}
