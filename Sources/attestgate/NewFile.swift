internal import Foundation

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
