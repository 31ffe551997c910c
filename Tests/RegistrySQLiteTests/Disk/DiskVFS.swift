import GRDBSQLite
import Glibc
import Synchronization

/// SQLite's way to a `FailingDisk`: a VFS that is the process's default, and leaves every other file to the one that was.
///
/// Its files know no shared memory, so that SQLite refuses a log in any but exclusive mode.
enum DiskVFS {
    private static let disks = Mutex<[String: Disk]>([:])

    private struct Disk {
        weak var disk: FailingDisk?
    }

    static func add(_ disk: FailingDisk) {
        _ = isRegistered
        disks.withLock { $0[disk.directory] = Disk(disk: disk) }
    }

    static func remove(_ directory: String) {
        disks.withLock { $0[directory] = nil }
    }

    fileprivate static func disk(of path: String) -> FailingDisk? {
        guard let slash = path.lastIndex(of: "/") else { return nil }
        return disks.withLock { $0[String(path[..<slash])]?.disk }
    }

    private static let isRegistered: Bool = {
        // Allocated once and never freed: SQLite keeps the pointer.
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        vfs.initialize(to: original.pointee)
        vfs.pointee.pNext = nil
        vfs.pointee.zName = UnsafePointer(strdup("failing-disk"))
        vfs.pointee.szOsFile = max(original.pointee.szOsFile, Int32(MemoryLayout<DiskFile>.size))
        vfs.pointee.xOpen = openFile
        vfs.pointee.xDelete = deleteFile
        vfs.pointee.xAccess = accessFile
        return sqlite3_vfs_register(vfs, 1) == SQLITE_OK
    }()

    /// The system's. Set once, before ours is registered.
    fileprivate nonisolated(unsafe) static let original: UnsafeMutablePointer<sqlite3_vfs> = {
        guard let found = sqlite3_vfs_find("unix") else { fatalError("SQLite has a VFS for Unix") }
        return found
    }()

    fileprivate nonisolated(unsafe) static let methods: UnsafeMutablePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        var table = sqlite3_io_methods()
        table.iVersion = 1
        table.xClose = closeFile
        table.xRead = readFile
        table.xWrite = writeFile
        table.xTruncate = truncateFile
        table.xSync = syncFile
        table.xFileSize = sizeFile
        table.xLock = { _, _ in SQLITE_OK }
        table.xUnlock = { _, _ in SQLITE_OK }
        table.xCheckReservedLock = { _, isReserved in
            isReserved?.pointee = 0
            return SQLITE_OK
        }
        table.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        table.xSectorSize = { _ in Int32(DiskImage.sector) }
        // What the system's VFS says too.
        table.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
        methods.initialize(to: table)
        return methods
    }()
}

/// What lies where SQLite keeps a file's state: `methods` comes first, as in `sqlite3_file`.
private struct DiskFile {
    var methods: UnsafePointer<sqlite3_io_methods>?
    var file: Unmanaged<OpenFile>
}

/// A file that SQLite has open on a failing disk.
private final class OpenFile {
    let disk: FailingDisk
    let path: String
    /// Whether the next sync is to make its name durable: as the system's VFS does it for journals and logs.
    var hasNewName: Bool

    init(_ disk: FailingDisk, _ path: String, hasNewName: Bool) {
        self.disk = disk
        self.path = path
        self.hasNewName = hasNewName
    }
}

/// - Parameter file: one that `openFile` has opened on a failing disk, since its methods are ours.
private func withFile(_ file: UnsafeMutablePointer<sqlite3_file>?, _ body: (OpenFile) -> Int32) -> Int32 {
    guard let file else { return SQLITE_MISUSE }
    let raw = UnsafeMutableRawPointer(file)
    return body(raw.assumingMemoryBound(to: DiskFile.self).pointee.file.takeUnretainedValue())
}

private func openFile(
    _: UnsafeMutablePointer<sqlite3_vfs>?, _ name: UnsafePointer<CChar>?, _ file: UnsafeMutablePointer<sqlite3_file>?,
    _ flags: Int32, _ outFlags: UnsafeMutablePointer<Int32>?
) -> Int32 {
    guard let name, let file, let disk = DiskVFS.disk(of: String(cString: name)) else {
        // Room for a file of either kind is there.
        return DiskVFS.original.pointee.xOpen(DiskVFS.original, name, file, flags, outFlags)
    }
    let path = String(cString: name)
    let creates = flags & SQLITE_OPEN_CREATE != 0
    file.pointee.pMethods = nil
    let result = disk.open(path, creates: creates)
    guard result == SQLITE_OK else { return result }
    let isLog = flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL) != 0
    let opened = OpenFile(disk, path, hasNewName: creates && isLog)
    // SQLite has given `szOsFile` octets, aligned for any type; released in `closeFile`.
    UnsafeMutableRawPointer(file).initializeMemory(
        as: DiskFile.self, to: DiskFile(methods: UnsafePointer(DiskVFS.methods), file: .passRetained(opened)))
    outFlags?.pointee = flags
    return SQLITE_OK
}

private func closeFile(_ file: UnsafeMutablePointer<sqlite3_file>?) -> Int32 {
    withFile(file) { opened in
        Unmanaged.passUnretained(opened).release()
        file?.pointee.pMethods = nil
        return SQLITE_OK
    }
}

private func readFile(
    _ file: UnsafeMutablePointer<sqlite3_file>?, _ buffer: UnsafeMutableRawPointer?, _ count: Int32,
    _ offset: sqlite3_int64
) -> Int32 {
    withFile(file) {
        $0.disk.read(
            $0.path, at: Int(offset), into: UnsafeMutableRawBufferPointer(start: buffer, count: Int(count)))
    }
}

private func writeFile(
    _ file: UnsafeMutablePointer<sqlite3_file>?, _ buffer: UnsafeRawPointer?, _ count: Int32, _ offset: sqlite3_int64
) -> Int32 {
    withFile(file) {
        $0.disk.write(
            $0.path, [UInt8](UnsafeRawBufferPointer(start: buffer, count: Int(count))), at: Int(offset))
    }
}

private func truncateFile(_ file: UnsafeMutablePointer<sqlite3_file>?, _ size: sqlite3_int64) -> Int32 {
    withFile(file) { $0.disk.truncate($0.path, to: Int(size)) }
}

private func syncFile(_ file: UnsafeMutablePointer<sqlite3_file>?, _: Int32) -> Int32 {
    withFile(file) {
        let result = $0.disk.sync($0.path, andDirectory: $0.hasNewName)
        if result == SQLITE_OK { $0.hasNewName = false }
        return result
    }
}

private func sizeFile(
    _ file: UnsafeMutablePointer<sqlite3_file>?, _ size: UnsafeMutablePointer<sqlite3_int64>?
) -> Int32 {
    withFile(file) {
        guard let found = $0.disk.size($0.path) else { return SQLITE_IOERR | 7 << 8 }
        size?.pointee = sqlite3_int64(found)
        return SQLITE_OK
    }
}

private func deleteFile(
    _: UnsafeMutablePointer<sqlite3_vfs>?, _ name: UnsafePointer<CChar>?, _ syncsDirectory: Int32
) -> Int32 {
    guard let name, let disk = DiskVFS.disk(of: String(cString: name)) else {
        return DiskVFS.original.pointee.xDelete(DiskVFS.original, name, syncsDirectory)
    }
    return disk.delete(String(cString: name), syncsDirectory: syncsDirectory != 0)
}

private func accessFile(
    _: UnsafeMutablePointer<sqlite3_vfs>?, _ name: UnsafePointer<CChar>?, _ flags: Int32,
    _ result: UnsafeMutablePointer<Int32>?
) -> Int32 {
    guard let name, let disk = DiskVFS.disk(of: String(cString: name)), flags == SQLITE_ACCESS_EXISTS else {
        return DiskVFS.original.pointee.xAccess(DiskVFS.original, name, flags, result)
    }
    result?.pointee = disk.exists(String(cString: name)) ? 1 : 0
    return SQLITE_OK
}
