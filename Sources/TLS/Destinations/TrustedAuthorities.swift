internal import COpenSSL
public import Cryptography

/// The authorities that servers' certificates must chain to: read once, however many they are, and shared by the contexts of
/// all workers.
///
/// `@unchecked Sendable`: nothing changes after `init`. OpenSSL looks into a store under the store's own lock, and counts
/// references of it and of its certificates atomically; the library context is only kept, for the certificates refer to it.
public final class TrustedAuthorities: @unchecked Sendable {
    let store: OpaquePointer
    public let certificates: [Certificate]
    /// Certificates that were passed over.
    public let skipped: Int
    private let library: LibraryContext

    /// - Parameters:
    ///   - pem: one or more certificates. They may be intermediates: what is configured is what is trusted.
    ///   - skipsOthers: whether certificates that are no authorities are passed over: in a bundle that somebody else has made.
    ///     Otherwise they are refused.
    public init(pem: [[UInt8]], skipsOthers: Bool = false) throws(CryptographyError) {
        library = try LibraryContext()
        var all: [Certificate] = []
        for file in pem { all += try Certificate.all(inPEM: file, library) }
        certificates = skipsOthers ? all.filter(\.isAuthority) : all
        skipped = all.count - certificates.count
        ERR_clear_error()
        guard let store = X509_STORE_new() else { throw .fromQueue(doing: "make a store of authorities") }
        self.store = store
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        for authority in certificates {
            guard authority.isAuthority else {
                throw CryptographyError(doing: "trust \(authority.subject): it is not a certification authority")
            }
            ERR_clear_error()
            // One that is there already is no error.
            guard X509_STORE_add_cert(store, authority.pointer) == 1 else {
                throw .fromQueue(doing: "trust \(authority.subject)")
            }
        }
    }

    deinit {
        X509_STORE_free(store)
    }
}
