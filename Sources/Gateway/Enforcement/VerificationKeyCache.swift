internal import Cryptography
internal import Registry
internal import Vocabulary

/// One worker's decoded hardware keys, those used lately: decoding takes a third of a verification's time, and a key 2 KiB.
///
/// Two generations: when the young one is full it becomes the old one, and what is used again moves over. As good as
/// exact order of use, and nothing is linked or counted.
struct VerificationKeyCache {
    private var young: [KeyID: P256VerificationKey] = [:]
    private var old: [KeyID: P256VerificationKey] = [:]
    private let limit: Int

    /// - Parameter limit: keys kept at most.
    init(limit: Int) {
        self.limit = max(1, limit / 2)
    }

    var count: Int { young.count + old.count }

    /// - Parameter key: the id of the point, by which alone it is found.
    mutating func verifier(
        of key: KeyID, _ point: PublicPoint, _ library: LibraryContext
    ) throws(CryptographyError) -> P256VerificationKey {
        if let known = young[key] { return known }
        let verifier: P256VerificationKey
        if let known = old.removeValue(forKey: key) {
            verifier = known
        } else {
            let bytes = point.bytes
            verifier = try P256VerificationKey(point: bytes.span, library)
        }
        if young.count == limit {
            old = young
            young = [:]
        }
        young[key] = verifier
        return verifier
    }
}
