public import Cryptography

/// The revocation lists of a listener, and what is made of their age.
public struct RevocationCheck: Sendable {
    public enum Policy: Sendable {
        /// Every certificate below the trusted one must have a list of its issuer, and a fresh one.
        case requireFresh
        /// What lists there are count, whatever their age.
        case acceptStale
    }

    private let lists: [AuthorityIdentity: SignedRevocationList]
    private let policy: Policy

    /// - Parameter lists: at most one of each authority.
    public init(_ lists: [SignedRevocationList], _ policy: Policy) {
        self.lists = Dictionary(lists.map { ($0.authority, $0) }) { $0.thisUpdate >= $1.thisUpdate ? $0 : $1 }
        self.policy = policy
    }

    /// Why the first of a chain that is on a list is; nil if none is. Whatever the list's age: what is on an old one is on the
    /// next as well, but for holds.
    ///
    /// - Parameter chain: from the leaf up, without the trusted certificate: nobody revokes what is trusted by configuration.
    func reasonOfRevocation(_ chain: [IssuedCertificate]) -> String? {
        for (depth, certificate) in chain.enumerated() {
            guard let list = lists[certificate.issuer], let reason = list.reason(of: certificate) else { continue }
            let what = depth == 0 ? "revoked" : "an issuer in its chain is revoked"
            return "\(what) by the list of \(list.issuer): \(reason)"
        }
        return nil
    }

    /// Why nobody can say that none of a chain is revoked; nil if the lists say so, or need not.
    func reasonOfStaleness(_ chain: [IssuedCertificate], at now: Int64) -> String? {
        guard policy == .requireFresh else { return nil }
        // Nothing is known of what issued it.
        guard !chain.isEmpty else { return "its issuer was not recorded" }
        for certificate in chain {
            guard let list = lists[certificate.issuer] else {
                return "there is no revocation list of an issuer in its chain"
            }
            guard list.isFresh(at: now) else {
                return "the revocation list of \(list.issuer) is stale or not yet valid"
            }
        }
        return nil
    }
}
