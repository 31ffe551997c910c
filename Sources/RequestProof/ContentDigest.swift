internal import Encoding

/// The field Content-Digest (RFC 9530 section 2). It has at least one digest, and the content must match all of them.
public struct ContentDigest: Equatable, Sendable {
    /// The supported algorithms: those with status "Active" in RFC 9530 section 5. Others prove nothing and are
    /// ignored.
    public enum Algorithm: UInt8, CaseIterable, Sendable {
        case sha256
        case sha512

        /// The length of a digest in bytes.
        public var length: Int {
            switch self {
            case .sha256: 32
            case .sha512: 64
            }
        }

        fileprivate var key: [UInt8] { Self.keys[Int(rawValue)] }

        private static let keys = ["sha-256", "sha-512"].map { Array($0.utf8) }
    }

    /// The expected SHA-256 of the content, 32 bytes.
    public private(set) var sha256: [UInt8]?
    /// The expected SHA-512 of the content, 64 bytes.
    public private(set) var sha512: [UInt8]?

    /// Parses the field.
    ///
    /// - Parameter field: The value of Content-Digest, with several lines combined by `CombinedField`.
    /// - Throws: `malformed` of `contentDigest`.
    public init(parsing field: Span<UInt8>) throws(ProofFault) {
        do throws(Malformation) {
            try read(field)
            guard sha256 != nil || sha512 != nil else { throw .digestAlgorithms }
        } catch {
            throw .malformed(.contentDigest, error)
        }
    }

    /// Returns the expected digest, or nil if the field has none of this algorithm.
    public func expected(_ algorithm: Algorithm) -> [UInt8]? {
        switch algorithm {
        case .sha256: sha256
        case .sha512: sha512
        }
    }

    /// Returns whether the content matches all digests of the field.
    ///
    /// - Parameter digest: Computes the content's digest. It is called for the algorithms in the field.
    public func matches(_ digest: (Algorithm) -> [UInt8]) -> Bool {
        var isMatch = true
        for algorithm in Algorithm.allCases {
            guard let expected = expected(algorithm) else { continue }
            if !DigestComparison.isEqual(expected.span, digest(algorithm).span) { isMatch = false }
        }
        return isMatch
    }

    /// Returns the value of Content-Digest: `sha-256=:...:`. Nil if the digest's length is not the algorithm's.
    public static func fieldValue(_ algorithm: Algorithm, _ digest: Span<UInt8>) -> [UInt8]? {
        guard digest.count == algorithm.length else { return nil }
        var bytes = algorithm.key
        bytes.append(FieldByte.equals)
        FieldWriter.append(byteSequence: digest, to: &bytes)
        return bytes
    }

    private mutating func read(_ field: Span<UInt8>) throws(Malformation) {
        var parser = try FieldParser(field)
        while let key = try parser.nextMember() {
            let value = try parser.memberValue()
            guard let algorithm = Self.find(field.extracting(key)) else {
                try parser.skip(value)
                continue
            }
            guard expected(algorithm) == nil else { throw .algorithmRepeated }
            guard case .item(.byteSequence(let range)) = value else { throw .notAByteSequence }
            guard try parser.nextParameter() == nil else { throw .parametersRefused }
            var digest: [UInt8] = []
            guard range.count <= 88, Base64.decode(field.extracting(range), appendingTo: &digest) else {
                throw range.count <= 88 ? .base64 : .digestLength
            }
            guard digest.count == algorithm.length else { throw .digestLength }
            switch algorithm {
            case .sha256: sha256 = digest
            case .sha512: sha512 = digest
            }
        }
    }

    private static func find(_ key: Span<UInt8>) -> Algorithm? {
        for algorithm in Algorithm.allCases where key.isSame(as: algorithm.key) { return algorithm }
        return nil
    }
}

/// Comparison of digests in constant time.
public enum DigestComparison {
    /// Returns whether both have the same bytes. The lengths are not secret.
    public static func isEqual(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for index in left.indices { difference |= left[index] ^ right[index] }
        return difference == 0
    }
}
