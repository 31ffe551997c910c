internal import COpenSSL

/// Comparisons of secrets.
public enum ConstantTime {
    /// Whether two stretches of bytes are the same, in a time that depends on their lengths only.
    public static func areEqual(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return left.withUnsafeBufferPointer { left in
            right.withUnsafeBufferPointer { right in
                // Both are empty where there is no address; CRYPTO_memcmp wants one even then.
                guard let left = left.baseAddress, let other = right.baseAddress else { return true }
                return CRYPTO_memcmp(left, other, right.count) == 0
            }
        }
    }
}
