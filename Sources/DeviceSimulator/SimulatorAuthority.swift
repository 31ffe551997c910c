internal import Cryptography
internal import Foundation

/// The platforms of simulated phones.
public enum DevicePlatform: String, CaseIterable, Sendable {
    case ios
    case android
}

/// The simulator's certification authority in place of Apple's or Google's. Trust in its root means trust in software
/// keys, so its names say what it is.
public enum SimulatorAuthority {
    private static let lifetime: Int64 = 3_650 * 86_400

    /// Returns the names of the files in the order of writing.
    public static func files(for platform: DevicePlatform) -> [String] {
        switch platform {
        case .ios:
            [
                "simulator-root.key", "simulator-root.pem", "simulator-intermediate.key", "simulator-intermediate.pem",
            ]
        case .android: ["simulator-android-root.key", "simulator-android-root.pem"]
        }
    }

    /// Creates the authority. Replaces nothing.
    ///
    /// - Returns: the paths of the files.
    public static func create(in directory: String, for platform: DevicePlatform = .ios) throws -> [String] {
        let paths = files(for: platform).map { directory + "/" + $0 }
        for path in paths where SimulatorFile.exists(path) {
            throw SimulatorError("\(path) already exists; nothing was written")
        }
        let library = try LibraryContext()
        let contents = platform == .ios ? try appleAuthority(library) : try googleAuthority(library)
        try SimulatorFile.makeDirectory(directory)
        for (path, content) in zip(paths, contents) { try SimulatorFile.create(path, content) }
        return paths
    }

    /// Returns root and intermediate on P-384, as Apple's for App Attest.
    private static func appleAuthority(_ library: LibraryContext) throws -> [[UInt8]] {
        let rootKey = try PrivateKey.generateP384(library)
        let root = try CertificateIssuer.selfSigned(
            .rootAuthority, commonName: "AttestGate Device Simulator Root CA (not Apple)", lifetime: lifetime,
            key: rootKey, library)
        let key = try PrivateKey.generateP384(library)
        let intermediate = try root.issue(
            CertificateTemplate(
                purpose: .authority, commonName: "AttestGate Device Simulator CA 1 (not Apple)", lifetime: lifetime),
            for: key.publicKey)
        return [try rootKey.pem(), try root.certificate.pem(), try key.pem(), try intermediate.pem()]
    }

    /// Returns a root on P-384, as Google's. Each phone has its own authorities below it.
    private static func googleAuthority(_ library: LibraryContext) throws -> [[UInt8]] {
        let key = try PrivateKey.generateP384(library)
        let now = Int64(Date().timeIntervalSince1970)
        var root = CertificateForm(name: androidRootName, key: key, validity: (now - 300)...(now + lifetime))
        root.constraints = [
            (.subjectKeyIdentifier, "hash"), (.basicConstraints, "critical,CA:TRUE"),
            (.keyUsage, "critical,keyCertSign,cRLSign"),
        ]
        return [try key.pem(), try root.sign(by: key, library).pem()]
    }

    static let androidRootName = [("CN", "AttestGate Device Simulator Root CA (not Google)")]

    /// Returns the intermediate, which signs attestations of iPhones.
    static func intermediate(in directory: String, _ library: LibraryContext) throws -> CertificateIssuer {
        let paths = try existing(in: directory, for: .ios)
        let key = try PrivateKey(pem: SimulatorFile.read(paths[2]), library)
        return try CertificateIssuer(certificate: certificate(paths[3], library), key: key, library)
    }

    /// Returns the root above Android phones with its key.
    static func androidRoot(
        in directory: String, _ library: LibraryContext
    ) throws -> (certificate: Certificate, key: PrivateKey) {
        let paths = try existing(in: directory, for: .android)
        let key = try PrivateKey(pem: SimulatorFile.read(paths[0]), library)
        return (try certificate(paths[1], library), key)
    }

    private static func existing(in directory: String, for platform: DevicePlatform) throws -> [String] {
        let paths = files(for: platform).map { directory + "/" + $0 }
        for path in paths where !SimulatorFile.exists(path) {
            let (name, option) = platform == .ios ? ("", "") : (" for Android phones", " --platform android")
            throw SimulatorError(
                "there is no authority\(name) in \(directory): name its directory with --attestation-ca, or create one "
                    + "with attestgate-device ca init\(option) --directory \(directory)")
        }
        return paths
    }

    private static func certificate(_ path: String, _ library: LibraryContext) throws -> Certificate {
        guard let certificate = try Certificate.all(inPEM: SimulatorFile.read(path), library).first else {
            throw SimulatorError("\(path) contains no certificate")
        }
        return certificate
    }
}
