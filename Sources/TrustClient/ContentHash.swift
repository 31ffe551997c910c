#if canImport(CryptoKit)
    internal import CryptoKit
#else
    internal import Cryptography
#endif

/// The one hash of a proof: of the content, and of the signature base.
enum ContentHash {
    /// - Returns: 32 bytes.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        #if canImport(CryptoKit)
            Array(SHA256.hash(data: bytes))
        #else
            Digest256.sha256(of: bytes.span).bytes
        #endif
    }
}
