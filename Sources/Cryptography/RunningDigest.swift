internal import COpenSSL

/// A digest of bytes that come in pieces: a request's content, for `Content-Digest` (RFC 9530).
public struct RunningDigest<let length: Int>: ~Copyable {
    private let context: OpaquePointer
    /// Kept alive: the algorithm is its.
    private let library: LibraryContext

    private init(_ algorithm: OpaquePointer, _ library: LibraryContext) throws(CryptographyError) {
        ErrorQueue.forget()
        guard let context = EVP_MD_CTX_new() else { throw .fromQueue(doing: "create a digest") }
        guard EVP_DigestInit_ex2(context, algorithm, nil) == 1 else {
            EVP_MD_CTX_free(context)
            throw .fromQueue(doing: "begin a digest")
        }
        self.context = context
        self.library = library
    }

    deinit {
        EVP_MD_CTX_free(context)
    }

    /// Takes in the next bytes.
    public mutating func update(_ bytes: Span<UInt8>) throws(CryptographyError) {
        ErrorQueue.forget()
        let done = bytes.withUnsafeBufferPointer { EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
        guard done == 1 else { throw .fromQueue(doing: "continue a digest") }
    }

    /// The digest of everything taken in.
    public consuming func finish() throws(CryptographyError) -> Digest<length> {
        var digest = Digest<length>()
        ErrorQueue.forget()
        let context = self.context
        guard digest.fill({ EVP_DigestFinal_ex(context, $0, nil) }) == 1 else {
            throw .fromQueue(doing: "finish a digest")
        }
        return digest
    }
}

extension RunningDigest where length == 32 {
    public static func sha256(_ context: LibraryContext) throws(CryptographyError) -> RunningDigest {
        try RunningDigest(context.sha256, context)
    }
}

extension RunningDigest where length == 64 {
    public static func sha512(_ context: LibraryContext) throws(CryptographyError) -> RunningDigest {
        try RunningDigest(context.sha512, context)
    }
}
