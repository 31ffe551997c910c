internal import Glibc

/// Looks at a write-ahead log for damage, before SQLite does: which takes everything behind it for never written, and forgets it.
///
/// Each commit is synced before the next is begun, and a log that was found is moved into the file before it grows. So a power
/// cut leaves at most one commit that is not whole, at the end. Two or more behind the first frame that does not fit were
/// acknowledged, and are lost. The format is SQLite's (sqlite.org/fileformat2.html, section 4).
struct LogCheck {
    private let descriptor: Int32
    private let isBigEndian: Bool
    private let pageSize: Int
    private let salts: ArraySlice<UInt8>
    private var sum: (UInt32, UInt32) = (0, 0)

    private static let headerSize = 32
    private static let frameHeaderSize = 24

    /// - Throws: `corrupted`. Nothing is thrown for a log that is not there, or cannot be read: others say that.
    static func check(_ path: String) throws(StoreOpenError) {
        let descriptor = open(path + "-wal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        guard var log = LogCheck(descriptor) else { return }
        let lost = log.commitsBehindDamage(upTo: (size(of: path) + size(of: path + "-wal")) / log.pageSize + 1)
        guard lost < 2 else {
            throw .corrupted(path: path, detail: "its log is damaged, and \(lost) commits follow the damage")
        }
    }

    /// Nil where SQLite sees no log: as far as can be known, none of its frames is valid then.
    private init?(_ descriptor: Int32) {
        guard let header = Self.read(descriptor, at: 0, Self.headerSize) else { return nil }
        let magic = Self.word(header[0..<4])
        guard magic & ~1 == 0x377F_0682 else { return nil }
        self.descriptor = descriptor
        isBigEndian = magic & 1 == 1
        pageSize = Int(Self.word(header[8..<12]))
        salts = header[16..<24]
        guard (512...65_536).contains(pageSize) else { return nil }
        add(header[0..<24])
        guard isSum(header[24..<32]) else { return nil }
    }

    private static func size(of path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Frames that end a commit, from the first on that does not fit.
    ///
    /// - Parameter most: pages that a database can have with this file and this log. A frame that says more was never written: a power
    ///   cut can leave anything in a sector, and the boundary of one may lie between that number and the salts.
    private mutating func commitsBehindDamage(upTo most: Int) -> Int {
        var commits = 0
        var isWhole = true
        let size = Self.frameHeaderSize + pageSize
        var offset = Self.headerSize
        while let frame = Self.read(descriptor, at: offset, size) {
            offset += size
            // Of an earlier use of the file: those that follow are so too, or the one before is the damage.
            let isOurs = frame[8..<16] == salts
            if isWhole, isOurs {
                add(frame[0..<8])
                add(frame[Self.frameHeaderSize...])
            }
            isWhole = isWhole && isOurs && isSum(frame[16..<24])
            // The size of the database after the commit; 0 in frames that end none.
            if !isWhole, isOurs, (1...most).contains(Int(Self.word(frame[4..<8]))) { commits += 1 }
        }
        return commits
    }

    private mutating func add(_ bytes: ArraySlice<UInt8>) {
        // Whole pairs of words: headers and pages are multiples of eight octets.
        for index in stride(from: bytes.startIndex, to: bytes.endIndex, by: 8) {
            var first = Self.word(bytes[index..<index + 4])
            var second = Self.word(bytes[index + 4..<index + 8])
            if !isBigEndian { (first, second) = (first.byteSwapped, second.byteSwapped) }
            sum.0 &+= first &+ sum.1
            sum.1 &+= second &+ sum.0
        }
    }

    private func isSum(_ bytes: ArraySlice<UInt8>) -> Bool {
        Self.word(bytes.prefix(4)) == sum.0 && Self.word(bytes.suffix(4)) == sum.1
    }

    /// Big-endian, as all numbers of the format.
    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// - Returns: nil if there are fewer.
    private static func read(_ descriptor: Int32, at offset: Int, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        // The buffer has room for `count` octets, and lives as long as the call.
        let found = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, count, off_t(offset)) }
        return found == count ? bytes : nil
    }
}
