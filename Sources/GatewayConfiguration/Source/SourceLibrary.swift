internal import Glibc

/// Where the files come from that a conf file includes.
struct SourceLibrary: Sendable {
    /// The first bytes of a file.
    let read: @Sendable (_ path: String, _ limit: Int) -> Result<[UInt8], FileReader.Failure>
    /// The files that fit a pattern, as `glob(7)` understands it, in the order of their names' bytes.
    let matches: @Sendable (_ pattern: String) -> Result<[String], FileReader.Failure>
    /// The same for every path to one file; nothing where there is none.
    let identity: @Sendable (_ path: String) -> String?

    static let system = SourceLibrary(
        read: { FileReader.read($0, atMost: $1) }, matches: Self.glob, identity: FileReader.identity)

    private static func glob(_ pattern: String) -> Result<[String], FileReader.Failure> {
        var found = unsafe glob_t()
        // Initialised above, and filled or left empty by the call, whatever it returns.
        defer { unsafe globfree(&found) }
        switch unsafe Glibc.glob(pattern, GLOB_ERR | GLOB_NOSORT, nil, &found) {
        case 0: break
        case GLOB_NOMATCH: return .success([])
        case GLOB_NOSPACE: return .failure(FileReader.Failure("not enough memory for the matching files"))
        default: return .failure(FileReader.Failure("one of its directories is missing or cannot be read"))
        }
        var paths: [String] = []
        for index in 0..<Int(unsafe found.gl_pathc) {
            // glob(3): as many paths as it says, none of them null.
            guard let path = unsafe found.gl_pathv[index] else { break }
            unsafe paths.append(String(cString: path))
        }
        return .success(paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    }
}
