internal import Glibc

/// Reads the small files a conf file names.
enum FileContents {
    struct Failure: Error, CustomStringConvertible {
        let path: String
        let errno: Int32

        var description: String { "cannot read \(path): \(String(cString: strerror(errno)))" }
    }

    /// More than any certificate bundle: a path that leads to a device must not fill the memory.
    private static let limit = 16 * 1024 * 1024

    static func read(_ path: String) throws(Failure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(path: path, errno: errno) }
        defer { close(descriptor) }
        var contents: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            guard count >= 0 else { throw Failure(path: path, errno: errno) }
            if count == 0 { return contents }
            contents += chunk[..<count]
            guard contents.count <= limit else { throw Failure(path: path, errno: EFBIG) }
        }
    }
}
