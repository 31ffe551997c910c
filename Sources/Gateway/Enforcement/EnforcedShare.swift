internal import Cryptography
internal import Vocabulary

/// The devices on which a route is enforced, while it only observes the others: a share of them, chosen by a keyed hash.
///
/// Every gateway with the same secret chooses the same devices, and a larger share keeps those of a smaller one.
struct EnforcedShare {
    private let key: AuthenticationKey
    /// A hash below this is enforced.
    private let limit: UInt64

    /// - Parameters:
    ///   - key: The key for the route.
    ///   - percent: 0 to 99.
    init(_ key: AuthenticationKey, percent: Int) {
        self.key = key
        limit = UInt64.max / 100 * UInt64(percent)
    }

    /// Returns whether a key is in the share. A device has several: it is enforced if any of them is, so that enrolment
    /// never ends enforcement.
    func includes(_ key: KeyID) -> Bool {
        guard limit > 0 else { return false }
        do throws(CryptographyError) {
            let bytes = key.bytes
            let code = try self.key.code(of: bytes.span)
            var hash: UInt64 = 0
            for index in 0..<8 { hash = hash << 8 | UInt64(code.span[index]) }
            return hash < limit
        } catch {
            return true
        }
    }
}
