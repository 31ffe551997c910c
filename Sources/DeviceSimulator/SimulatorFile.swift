internal import Foundation

/// Access to the files of a simulated device. They are small, and only their owner can read them.
enum SimulatorFile {
    /// Size limit in bytes, above any key, certificate or challenge.
    static let sizeLimit = 65_536

    static func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Creates the directory if it is missing, for its owner only.
    static func makeDirectory(_ path: String) throws(SimulatorError) {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw .system("create \(path)") }
    }

    static func read(_ path: String, atMost limit: Int = sizeLimit) throws(SimulatorError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system("read \(path)") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Foundation.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .system("read \(path)") }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
            guard bytes.count <= limit else { throw SimulatorError("\(path) is longer than \(limit) bytes") }
        }
    }

    /// Creates the file. It never replaces one.
    static func create(_ path: String, _ bytes: [UInt8]) throws(SimulatorError) {
        try write(path, bytes, O_CREAT | O_EXCL)
    }

    /// Replaces the file atomically. A reader finds the old or the new content, even after a crash.
    static func replace(_ path: String, _ bytes: [UInt8]) throws(SimulatorError) {
        let draft = path + ".new"
        try write(draft, bytes, O_CREAT | O_TRUNC)
        guard rename(draft, path) == 0 else { throw .system("replace \(path)") }
        let directory = (path as NSString).deletingLastPathComponent
        let descriptor = open(directory.isEmpty ? "." : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system("open \(directory)") }
        defer { close(descriptor) }
        // Without this sync, a power failure may lose the new name.
        guard fsync(descriptor) == 0 else { throw .system("sync \(directory)") }
    }

    private static func write(_ path: String, _ bytes: [UInt8], _ flags: Int32) throws(SimulatorError) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0o600)
        guard descriptor >= 0 else { throw .system("create \(path)") }
        defer { close(descriptor) }
        // A temporary file of another program may have other permissions.
        guard fchmod(descriptor, 0o600) == 0 else { throw .system("protect \(path)") }
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .system("write \(path)") }
            done += count
        }
        guard fsync(descriptor) == 0 else { throw .system("write \(path)") }
    }

    static func remove(_ path: String) throws(SimulatorError) {
        guard unlink(path) == 0 else { throw .system("remove \(path)") }
    }

    /// Runs `body` while holding an exclusive lock on the file.
    static func locked<Result>(
        _ path: String, _ body: () throws(SimulatorError) -> Result
    ) throws(SimulatorError) -> Result {
        let lock = try SimulatorLock(path)
        defer { withExtendedLifetime(lock) {} }
        return try body()
    }
}

/// A lock against other processes, held for as long as the object exists. The end of the process also releases it.
public final class SimulatorLock {
    private let descriptor: Int32

    init(_ path: String) throws(SimulatorError) {
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .system("open \(path)") }
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { throw .system("lock \(path)") }
        }
    }

    deinit {
        // Closing unlocks. If the initializer threw at once, nothing was opened.
        if descriptor >= 0 { close(descriptor) }
    }
}

/// A failed operation on the simulator's files, described for its user.
public struct SimulatorError: Error, Equatable, CustomStringConvertible, Sendable {
    public let description: String

    public init(_ description: String) { self.description = description }

    /// Returns an error with the system's reason for the last call.
    static func system(_ doing: String) -> SimulatorError {
        SimulatorError("cannot \(doing): \(String(cString: strerror(errno)))")
    }

    /// Returns an error for a gateway without a challenge that this device can answer.
    ///
    /// - Parameter status: The status of the challenge endpoint's response.
    public static func noChallenge(status: Int, denial: String?) -> SimulatorError {
        SimulatorError("the gateway sent no challenge: status \(status)" + (denial.map { ", \($0)" } ?? ""))
    }

    public static func noCertificate(_ path: String, for device: DeviceDirectory) -> SimulatorError {
        SimulatorError(
            "there is no client certificate \(path): get one with attestgate-device enrol, or with attestgate pki issue "
                + "--certificate-key \(device.certificatePublicKeyPath) --out \(path)")
    }
}
