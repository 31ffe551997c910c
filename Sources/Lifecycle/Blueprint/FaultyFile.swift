internal import Cryptography
internal import GatewayConfiguration

/// Finds which of the files that are used together is at fault: OpenSSL names the failed call, but operators correct
/// files.
enum FaultyFile {
    /// - Parameter authorities: what others' certificates must chain to.
    /// - Returns: nil if each by itself, and the key beside the certificate, is what it should be.
    static func among(
        certificate: String, key: String, authorities: [String] = []
    ) -> Subject? {
        guard let library = try? LibraryContext() else { return nil }
        guard let leaf = certificates(in: certificate, library)?.first else { return .file(certificate) }
        guard let bytes = try? FileContents.read(key),
            let parsed = try? PrivateKey(pem: bytes, library), leaf.isCertificate(of: parsed)
        else { return .privateKey(key) }
        return among(authorities: authorities, library)
    }

    static func among(authorities: [String]) -> Subject? {
        (try? LibraryContext()).flatMap { among(authorities: authorities, $0) }
    }

    private static func among(authorities: [String], _ library: LibraryContext) -> Subject? {
        authorities.first { path in
            guard let certificates = certificates(in: path, library) else { return true }
            return certificates.isEmpty || !certificates.allSatisfy(\.isAuthority)
        }.map { .file($0) }
    }

    private static func certificates(in path: String, _ library: LibraryContext) -> [Certificate]? {
        guard let bytes = try? FileContents.read(path) else { return nil }
        return try? Certificate.all(inPEM: bytes, library)
    }
}
