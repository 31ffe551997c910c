internal import COpenSSL

/// A fixed number of bytes that a hash or a MAC gave, held in place: hashing allocates nothing.
///
/// Equality takes the same time whatever the bytes are, so a MAC may be compared with `==` (a comparison that stops at
/// the first difference tells an attacker, byte by byte, what the right value is).
public struct Digest<let length: Int>: Sendable {
    private var storage = InlineArray<length, UInt8>(repeating: 0)

    /// All zeros, for `fill`.
    init() {}

    /// - Parameter bytes: exactly `length` of them; anything else is no such digest.
    public init?(_ bytes: Span<UInt8>) {
        guard bytes.count == length else { return nil }
        for index in 0..<length { storage[index] = bytes[index] }
    }

    /// The bytes, `length` of them.
    public var span: Span<UInt8> {
        @_lifetime(borrow self)
        get { storage.span }
    }

    /// The bytes, copied.
    public var bytes: [UInt8] { (0..<length).map { storage[$0] } }

    /// Hands room for `length` bytes to a C function. The pointer is valid only inside `body`.
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
    /// Returns SHA-256 of `bytes` from OpenSSL's default library context: for clients, which have no `LibraryContext`.
    public static func sha256(of bytes: Span<UInt8>) -> Digest256 {
        var digest = Digest256()
        let made = bytes.withUnsafeBufferPointer { bytes in
            digest.fill { SHA256(bytes.baseAddress, bytes.count, $0) }
        }
        // Only an OpenSSL without SHA-256 gives none, and that one has no P-256 signatures either.
        precondition(made != nil, "OpenSSL has no SHA-256")
        return digest
    }
}

public typealias Digest512 = Digest<64>
