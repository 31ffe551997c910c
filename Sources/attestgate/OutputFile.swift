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
