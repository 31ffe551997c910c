internal import Cryptography
internal import RequestProof

/// The digests of content that is still coming, beside those that it must have.
struct ContentDigests: ~Copyable {
    private let expected: ContentDigest?
    private var sha256: RunningDigest<32>?
    private var sha512: RunningDigest<64>?

    /// - Parameter expected: every digest in it must match; nil only where there is no content.
    init(expecting expected: ContentDigest?, _ library: LibraryContext) throws(CryptographyError) {
        self.expected = expected
        sha256 = expected?.sha256 == nil ? nil : try .sha256(library)
        sha512 = expected?.sha512 == nil ? nil : try .sha512(library)
    }

    mutating func update(_ content: Span<UInt8>) throws(CryptographyError) {
        try sha256?.update(content)
        try sha512?.update(content)
    }

    /// Whether all of it hashes to every digest that was expected. Once, when it is complete.
    mutating func match() throws(CryptographyError) -> Bool {
        var isMatch = true
        if let running = sha256.take(), let expected = expected?.sha256 {
            let digest = try running.finish()
            if !ConstantTime.areEqual(digest.span, expected.span) { isMatch = false }
        }
        if let running = sha512.take(), let expected = expected?.sha512 {
            let digest = try running.finish()
            if !ConstantTime.areEqual(digest.span, expected.span) { isMatch = false }
        }
        return isMatch
    }
}
