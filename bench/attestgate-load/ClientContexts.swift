internal import Cryptography
internal import LoadGeneration
internal import TLS

/// Makes the TLS context of each device: whom it trusts, and its certificate.
struct ClientContexts {
    private let command: LoadCommand
    private let library: LibraryContext
    /// The keys that devices have already; new ones are made where there are none.
    private let keys: [PrivateKey]?

    init(_ command: LoadCommand, keys: [PrivateKey]?, _ library: LibraryContext) {
        self.command = command
        self.keys = keys
        self.library = library
    }

    func make() throws -> [ClientContext] {
        let authorities = try TrustedAuthorities(pem: [readFile(authorityPath)])
        return try identities().map { identity in
            try ClientContext(
                authorities: authorities, identity: identity.map { ($0.chain, $0.key) }, policy: .intermediate,
                speaking: command.http2 ? .http2 : .http11, library: library)
        }
    }

    private var authorityPath: String { command.ca ?? (command.certificates ?? ".") + "/server-ca.pem" }

    private func identities() throws -> [LoadIdentity?] {
        let count = command.devices ?? command.connections
        if let directory = command.certificates {
            let authority = try Certificate.all(inPEM: readFile(directory + "/gms-ca.pem"), library)[0]
            let key = try PrivateKey(pem: readFile(directory + "/gms-ca.key"), library)
            let keys = try keys ?? (0..<count).map { _ in try PrivateKey.generateP256(library) }
            return try LoadIdentity.issue(keys, from: CertificateIssuer(certificate: authority, key: key, library))
        }
        guard let certificate = command.clientCertificate, let key = command.clientKey else {
            return [LoadIdentity?](repeating: nil, count: count)
        }
        let identity = LoadIdentity(
            chain: try Certificate.all(inPEM: readFile(certificate), library),
            key: try PrivateKey(pem: readFile(key), library))
        return [LoadIdentity?](repeating: identity, count: count)
    }
}
