internal import Foundation

/// Files that commands write.
enum OutputFile {
    /// Creates the file, never replaces one; a secret is readable by its owner alone from the first moment on.
    static func create(_ bytes: [UInt8], at path: String, secret: Bool = false) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, secret ? 0o600 : 0o644)
        guard descriptor >= 0 else { throw Failure("cannot create \(path): \(reason())") }
        defer { close(descriptor) }
        guard write(bytes, to: descriptor) else { throw Failure("cannot write \(path): \(reason())") }
    }

    /// Makes the file, or replaces it atomically: a reader finds the old or the new one, complete, even after a power
    /// cut.
    static func replace(_ bytes: [UInt8], at path: String) throws {
        let beside = "\(path).\(getpid())"
        let descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw Failure("cannot create \(beside): \(reason())") }
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
        // The name, too, is on the disk only when its directory is.
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

    private static func reason() -> String { String(cString: strerror(errno)) }
}

/// A file that is written piece by piece, and has its name only when it is complete and on the disk. Never takes another's place;
/// readable by its owner alone.
final class NewFile {
    private let path: String
    private let beside: String
    private let descriptor: Int32

    init(at path: String) throws {
        self.path = path
        // Where it can be renamed.
        beside = "\(path).\(getpid())"
        var status = stat()
        guard lstat(path, &status) != 0 else { throw Failure("\(path) already exists and is not replaced") }
        descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Failure("cannot create \(beside): \(String(cString: strerror(errno)))") }
    }

    deinit {
        if descriptor >= 0 {
            close(descriptor)
            unlink(beside)
        }
    }

    func write(_ bytes: [UInt8]) throws {
        guard OutputFile.write(bytes, to: descriptor) else { throw failure("write", beside) }
    }

    /// Gives it its name.
    func keep() throws {
        guard fsync(descriptor) == 0 else { throw failure("write", beside) }
        // Unlike a renaming, fails where there is a file of the name by now.
        guard link(beside, path) == 0 else { throw failure("create", path) }
        // Without the directory a power cut could take the name.
        let directory = open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
        defer { close(directory) }
        guard directory >= 0, fsync(directory) == 0 else {
            throw Failure(
                "\(path) is written, but a power failure can still lose it: \(String(cString: strerror(errno)))")
        }
    }

    private func failure(_ doing: String, _ path: String) -> Failure {
        Failure("cannot \(doing) \(path): \(String(cString: strerror(errno)))")
    }
}
