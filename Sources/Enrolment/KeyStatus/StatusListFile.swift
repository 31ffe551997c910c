internal import Attestation
internal import Glibc

/// Access to the files of the status list: the copy that the gateway keeps, and a file of another program.
public enum StatusListFile {
    /// A failed call, for people.
    struct Fault: Error, Equatable {
        /// A text without the path.
        let reason: String
        /// Whether there is no such file.
        var isMissing = false

        fileprivate static var last: Fault {
            let code = errno
            // Never null, and copied before another call of this thread can change it.
            return Fault(reason: unsafe String(cString: strerror(code)), isMissing: code == ENOENT)
        }
    }

    /// A value that differs after a file was replaced or written.
    struct Mark: Equatable {
        private let device: UInt64
        private let node: UInt64
        private let size: Int64
        private let modified: Int64
        /// The time of the last change in seconds since 1970.
        let modifiedAt: Int64

        fileprivate init(_ status: stat) {
            device = UInt64(status.st_dev)
            node = UInt64(status.st_ino)
            size = Int64(status.st_size)
            modified = Int64(status.st_mtim.tv_nsec)
            modifiedAt = Int64(status.st_mtim.tv_sec)
        }
    }

    /// The lines before the list in a copy.
    private static let headLimit = 4_096

    /// Returns why the text of a list is not taken. Nil if it is.
    public static func fault(in text: [UInt8]) -> String? {
        do throws(RejectedStatusList) {
            _ = try AttestationStatusList(text, replacing: nil)
            return nil
        } catch {
            return error.reason
        }
    }

    /// Returns the mark of a file. Nil if there is none.
    static func mark(of path: String) -> Mark? {
        var status = stat()
        return unsafe stat(path, &status) == 0 ? Mark(status) : nil
    }

    /// Reads a file. The mark is that of the opened file, because the path may lead to another file by now.
    static func read(_ path: String) throws(Fault) -> (bytes: [UInt8], mark: Mark) {
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .last }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw .last }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Fault(reason: "it is not a regular file") }
        let limit = AttestationStatusList.longest + headLimit
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            // It never exceeds the chunk.
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .last }
            if count == 0 { return (bytes, Mark(status)) }
            bytes += chunk[..<count]
            guard bytes.count <= limit else { throw Fault(reason: "it is longer than \(limit) bytes") }
        }
    }

    /// Creates or replaces a file that only its owner can read. A reader finds the complete old or new one, even after
    /// a power failure.
    static func replace(_ path: String, with bytes: [UInt8]) throws(Fault) {
        // An upgrade has two processes for a short time.
        let draft = "\(path).\(getpid())"
        // Removes the file of a process that was killed while it wrote.
        _ = unsafe unlink(draft)
        let descriptor = unsafe open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .last }
        do throws(Fault) {
            defer { close(descriptor) }
            try write(bytes, to: descriptor)
            guard fsync(descriptor) == 0, unsafe rename(draft, path) == 0 else { throw .last }
        } catch {
            _ = unsafe unlink(draft)
            throw error
        }
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) throws(Fault) {
        var done = 0
        while done < bytes.count {
            // The bytes outlive the call.
            let count = unsafe bytes[done...].withUnsafeBytes {
                unsafe Glibc.write(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .last }
            done += count
        }
    }
}
