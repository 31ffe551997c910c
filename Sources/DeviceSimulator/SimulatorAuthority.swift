internal import Cryptography

/// The simulator's own certification authority, in the shape of Apple's for App Attest: a root and an intermediate, both
/// on P-384. Who trusts its root trusts software keys, so the names say what it is.
public enum SimulatorAuthority {
    /// The files, in the order they are written.
    public static let files = [
        "simulator-root.key", "simulator-root.pem", "simulator-intermediate.key", "simulator-intermediate.pem",
    ]

    private static let lifetime: Int64 = 3_650 * 86_400

    /// Makes root and intermediate. Replaces nothing.
    ///
    /// - Returns: the paths written.
    public static func create(in directory: String) throws -> [String] {
        let paths = files.map { directory + "/" + $0 }
        for path in paths where SimulatorFile.exists(path) {
            throw SimulatorError("\(path) already exists; nothing was written")
        }
        let library = try LibraryContext()
        let rootKey = try PrivateKey.generateP384(library)
        let root = try CertificateIssuer.selfSigned(
            .rootAuthority, commonName: "AttestGate Device Simulator Root CA (not Apple)", lifetime: lifetime,
            key: rootKey, library)
        let key = try PrivateKey.generateP384(library)
        let intermediate = try root.issue(
            CertificateTemplate(
                purpose: .authority, commonName: "AttestGate Device Simulator CA 1 (not Apple)", lifetime: lifetime),
            for: key.publicKey)
        let contents = [try rootKey.pem(), try root.certificate.pem(), try key.pem(), try intermediate.pem()]
        try SimulatorFile.makeDirectory(directory)
        for (path, content) in zip(paths, contents) { try SimulatorFile.create(path, content) }
        return paths
    }

    /// The intermediate, which attests.
    static func intermediate(in directory: String, _ library: LibraryContext) throws -> CertificateIssuer {
        guard SimulatorFile.exists(directory + "/" + files[3]) else {
            throw SimulatorError(
                "there is no authority in \(directory): create one with attestgate-device ca init --directory \(directory)"
            )
        }
        let certificate = try Certificate.all(inPEM: SimulatorFile.read(directory + "/" + files[3]), library)
        let key = try PrivateKey(pem: SimulatorFile.read(directory + "/" + files[2]), library)
        guard let certificate = certificate.first else {
            throw SimulatorError("\(directory)/\(files[3]) contains no certificate")
        }
        return try CertificateIssuer(certificate: certificate, key: key, library)
    }
}
