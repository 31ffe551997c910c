internal import EventLoop
internal import Glibc

/// An open file, or a stream of the process, that log lines go to.
struct LogOutput: Sendable {
    let descriptor: Int32
    let destination: LogWriter.Destination
    /// A file takes any amount at once; a pipe or terminal as much as it is ready for.
    let isFile: Bool
    /// The last line has no end: the disk was full when it was written.
    var isTorn = false

    init(_ destination: LogWriter.Destination) throws(EventLoopError) {
        self.destination = destination
        switch destination {
        case .standardOutput: descriptor = STDOUT_FILENO
        case .standardError: descriptor = STDERR_FILENO
        case .file(let path):
            // Does not wait for somebody to read a pipe.
            descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o640)
            guard descriptor >= 0 else { throw .system(call: "open \(path)", errno: errno) }
        }
        var status = stat()
        isFile = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    func close() {
        if case .file = destination { Glibc.close(descriptor) }
    }

    /// An earlier process may have ended in the middle of a line. To be asked while this one writes nothing there.
    mutating func lookAtEnd() {
        guard case .file(let path) = destination, isFile else { return }
        let reading = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        // A file that may be written alone is taken for whole.
        guard reading >= 0 else { return }
        defer { Glibc.close(reading) }
        var octet: UInt8 = 0
        let size = lseek(reading, 0, SEEK_END)
        isTorn = size > 0 && pread(reading, &octet, 1, size - 1) == 1 && octet != UInt8(ascii: "\n")
    }
}
