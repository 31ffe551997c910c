internal import COpenSSL

/// The fixed-size result of a hash or MAC. It is stored inline, so hashing allocates nothing.
///
/// `==` takes constant time and is safe for MACs. An early exit would reveal the right value byte by byte.
public struct Digest<let length: Int>: Sendable {
    private var storage = InlineArray<length, UInt8>(repeating: 0)

    /// Creates a digest of zeros, for `fill`.
    init() {}

    /// Creates a digest from its bytes.
    ///
    /// - Returns: nil unless there are exactly `length` bytes.
    public init?(_ bytes: Span<UInt8>) {
        guard bytes.count == length else { return nil }
        for index in 0..<length { storage[index] = bytes[index] }
    }

    /// The `length` bytes.
    public var span: Span<UInt8> {
        @_lifetime(borrow self)
        get { storage.span }
    }

    /// A copy of the bytes.
    public var bytes: [UInt8] { (0..<length).map { storage[$0] } }

    /// Passes memory for `length` bytes to a C function. The pointer is valid only inside `body`.
    mutating func fill<Result>(_ body: (UnsafeMutablePointer<UInt8>) -> Result) -> Result {
        var room = storage.mutableSpan
        return room.withUnsafeMutableBufferPointer { room in
            // Only an empty array has no address, and no digest is empty.
            guard let address = room.baseAddress else { preconditionFailure("a digest without bytes") }
            return body(address)
        }
    }
}

extension Digest: Equatable {
    public static func == (left: Digest, right: Digest) -> Bool {
        ConstantTime.areEqual(left.span, right.span)
    }
}

public typealias Digest256 = Digest<32>

extension Digest256 {
    /// Returns SHA-256 of `bytes` from OpenSSL's default library context. For clients, which have no `LibraryContext`.
    public static func sha256(of bytes: Span<UInt8>) -> Digest256 {
        var digest = Digest256()
        let made = bytes.withUnsafeBufferPointer { bytes in
            digest.fill { SHA256(bytes.baseAddress, bytes.count, $0) }
        }
        // Only an OpenSSL without SHA-256 fails here. Such a library has no P-256 signatures either.
        precondition(made != nil, "OpenSSL has no SHA-256")
        return digest
    }
}

public typealias Digest512 = Digest<64>

/// An incremental digest, for content that arrives in pieces, such as for `Content-Digest` (RFC 9530).
public struct RunningDigest<let length: Int>: ~Copyable {
    private let context: OpaquePointer
    /// Retained because it owns the algorithm.
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

    /// Adds the next bytes.
    public mutating func update(_ bytes: Span<UInt8>) throws(CryptographyError) {
        ErrorQueue.forget()
        let done = bytes.withUnsafeBufferPointer { EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
        guard done == 1 else { throw .fromQueue(doing: "continue a digest") }
    }

    /// Returns the digest of all bytes added.
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

/// Comparison of secrets.
public enum ConstantTime {
    /// Returns whether two byte sequences are equal. The time depends only on their lengths.
    public static func areEqual(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return left.withUnsafeBufferPointer { left in
            right.withUnsafeBufferPointer { right in
                // Only empty sequences have no address, which CRYPTO_memcmp does not accept.
                guard let left = left.baseAddress, let other = right.baseAddress else { return true }
                return CRYPTO_memcmp(left, other, right.count) == 0
            }
        }
    }
}
