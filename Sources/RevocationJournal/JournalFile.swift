internal import Glibc
internal import Registry

/// The file of the revocation journal, open for appending. Entries are durable when `append` returns.
struct JournalFile: ~Copyable {
    let path: String
    private let descriptor: Int32
    private let identity: StoreFile.Identity?
    /// The durable extent.
    private(set) var extent: JournalExtent
    private var lines: Int
    /// Whether the file may differ from what was written to it. After a failed sync the kernel may have dropped
    /// unwritten data.
    private var isDoubtful = false

    /// Reads a file.
    ///
    /// - Returns: nil if there is no such file.
    static func read(_ path: String) throws(WitnessFault) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw .last("read \(path)")
        }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 18)
        while true {
            // The buffer has the given size and lives until the call returns.
            let count = chunk.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count == 0 { return bytes }
            if count > 0 { bytes += chunk[..<count] } else if errno != EINTR { throw .last("read \(path)") }
        }
    }

    /// Opens a journal that was read, and removes the rest of an append that a crash interrupted.
    init(opening path: String, _ content: JournalText.Content) throws(WitnessFault) {
        self.path = path
        (extent, lines) = (content.extent, content.lines)
        identity = StoreFile.identity(of: path)
        descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw .last("open \(path)") }
        // The file is synced even if nothing is removed, because its writer may have been killed before its sync.
        guard ftruncate(descriptor, off_t(extent.length)) == 0, fsync(descriptor) == 0 else {
            throw .last("write \(path)")
        }
    }

    /// Creates a journal with the entries and replaces an existing one atomically.
    init(making path: String, _ entries: some Sequence<WitnessEntry>) throws(WitnessFault) {
        self.path = path
        let made = path + ".new"
        // Removes the file of a process that was killed while it wrote.
        unlink(made)
        descriptor = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        (extent, lines) = (JournalExtent(), 1)
        identity = StoreFile.identity(of: made)
        guard descriptor >= 0 else { throw .last("make \(made)") }
        do throws(WitnessFault) {
            try write(JournalText.header)
            var text = ""
            for entry in entries {
                lines += 1
                text += JournalText.line(entry, number: lines)
                guard text.utf8.count > 1 << 16 else { continue }
                try write(text)
                text = ""
            }
            try write(text)
            guard fsync(descriptor) == 0, rename(made, path) == 0 else { throw .last("make \(path)") }
            try Self.syncDirectory(of: path)
        } catch {
            unlink(made)
            throw error
        }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Whether the file still has its name and can be trusted. Otherwise it must be rewritten.
    var isInPlace: Bool { !isDoubtful && identity != nil && StoreFile.identity(of: path) == identity }

    /// Appends entries and makes them durable.
    ///
    /// - Throws: `WitnessFault` if none of them is known to be written.
    mutating func append(_ entries: [WitnessEntry]) throws(WitnessFault) {
        var text = ""
        for (index, entry) in entries.enumerated() { text += JournalText.line(entry, number: lines + index + 1) }
        let before = extent
        do throws(WitnessFault) {
            try write(text)
            guard fdatasync(descriptor) == 0 else {
                isDoubtful = true
                throw .last("sync \(path)")
            }
        } catch {
            extent = before
            if ftruncate(descriptor, off_t(before.length)) != 0 { isDoubtful = true }
            throw error
        }
        lines += entries.count
    }

    private mutating func write(_ text: String) throws(WitnessFault) {
        var bytes = [UInt8](text.utf8)[...]
        while !bytes.isEmpty {
            // The pointer is valid until the call returns.
            let count = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(extent.length)) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .last("write \(path)") }
            extent.append(bytes.prefix(count))
            bytes = bytes.dropFirst(count)
        }
    }

    static func syncDirectory(of path: String) throws(WitnessFault) {
        do throws(StoreOpenError) { try StoreFile.syncDirectory(of: path) } catch {
            throw WitnessFault(detail: error.description)
        }
    }
}
