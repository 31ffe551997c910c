internal import Foundation

/// The writing of output files.
enum OutputFile {
    /// Creates the file and never replaces one. A secret is readable only by its owner from the beginning.
    static func create(_ bytes: [UInt8], at path: String, secret: Bool = false) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, secret ? 0o600 : 0o644)
        guard descriptor >= 0 else { throw failure("create", path) }
        defer { close(descriptor) }
        guard write(bytes, to: descriptor) else { throw failure("write", path) }
    }

    /// Creates or replaces the file atomically. A reader finds the complete old or new file, even after a power
    /// failure.
    static func replace(_ bytes: [UInt8], at path: String) throws {
        let beside = "\(path).\(getpid())"
        let descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw failure("create", beside) }
        let isWritten = write(bytes, to: descriptor) && fsync(descriptor) == 0
        let fault = reason()
        close(descriptor)
        guard isWritten else {
            unlink(beside)
            throw Failure("cannot write \(beside): \(fault)")
        }
        guard rename(beside, path) == 0 else {
            let fault = reason()
            unlink(beside)
            throw Failure("cannot write \(path): \(fault)")
        }
        try syncDirectory(of: path)
    }

    /// Makes the name of a new file durable.
    fileprivate static func syncDirectory(of path: String) throws {
        let directory = open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
        defer { close(directory) }
        guard directory >= 0, fsync(directory) == 0 else {
            throw Failure("\(path) is written, but a power failure can still lose it: \(reason())")
        }
    }

    static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    fileprivate static func failure(_ doing: String, _ path: String) -> Failure {
        Failure("cannot \(doing) \(path): \(reason())")
    }

    private static func reason() -> String { String(cString: strerror(errno)) }
}

/// A file that is written in pieces and receives its name when it is complete and synced. It never replaces another
/// file, and is readable only by its owner.
final class NewFile {
    private let path: String
    private let beside: String
    private let descriptor: Int32

    init(at path: String) throws {
        self.path = path
        // In the same directory, so that it can be renamed.
        beside = "\(path).\(getpid())"
        var status = stat()
        guard lstat(path, &status) != 0 else { throw Failure("\(path) already exists and is not replaced") }
        descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw OutputFile.failure("create", beside) }
    }

    deinit {
        if descriptor >= 0 {
            close(descriptor)
            unlink(beside)
        }
    }

    func write(_ bytes: [UInt8]) throws {
        guard OutputFile.write(bytes, to: descriptor) else { throw OutputFile.failure("write", beside) }
    }

    /// Gives the file its name.
    func keep() throws {
        guard fsync(descriptor) == 0 else { throw OutputFile.failure("write", beside) }
        // In contrast to rename, this fails if a file with the name exists.
        guard link(beside, path) == 0 else { throw OutputFile.failure("create", path) }
        try OutputFile.syncDirectory(of: path)
    }
}

/// A file that is read in pieces, or standard input.
struct InputFile {
    let name: String
    private let handle: FileHandle

    /// Opens the file.
    ///
    /// - Parameter path: A path; - is standard input.
    init(_ path: String) throws {
        name = Self.name(of: path)
        guard let handle = path == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: path) else {
            throw Failure("\(name) cannot be read")
        }
        self.handle = handle
    }

    /// Returns the name for messages.
    static func name(of path: String) -> String { path == "-" ? "standard input" : path }

    /// Returns the next bytes, or nil at the end.
    ///
    /// - Throws: if the file cannot be read completely, so that an incomplete one does not count as complete.
    func next() throws -> Data? {
        do {
            return try handle.read(upToCount: 64 * 1024).flatMap { $0.isEmpty ? nil : $0 }
        } catch {
            throw Failure("\(name) cannot be read completely")
        }
    }
}
