internal import Cryptography
internal import Foundation

/// Certificates for development and tests, as files. Not for production: the CA key lies beside the certificates.
enum DevelopmentPKI {
    private static let day: Int64 = 86_400
    private static let authorityDays: Int64 = 3_650
    /// What browsers and phones still accept of a server certificate.
    private static let serverDays: Int64 = 397

    /// - Returns: the paths written.
    static func create(in directory: String, hosts: [String]) throws -> [String] {
        let names = ["gms-ca.pem", "gms-ca.key", "server-ca.pem", "server-ca.key", "server.pem", "server.key"]
        let folder = URL(fileURLWithPath: directory, isDirectory: true)
        // All or nothing: a directory half made by an earlier run would be worse than none.
        for name in names where FileManager.default.fileExists(atPath: folder.appendingPathComponent(name).path) {
            throw Failure("\(directory)/\(name) exists already; nothing was written")
        }
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch {
            throw Failure("cannot create \(directory): \(error.localizedDescription)")
        }

        let context = try LibraryContext()
        let clients = try authority("AttestGate development GMS CA", context)
        let servers = try authority("AttestGate development server CA", context)
        let serverKey = try PrivateKey.generateP256(context)
        let server = try servers.issuer.issue(
            CertificateTemplate(
                purpose: .server(names: hosts), commonName: String((hosts.first ?? "").prefix(64)),
                lifetime: serverDays * day),
            for: serverKey.publicKey)

        try write(clients.key.pem(), to: "\(directory)/gms-ca.key", secret: true)
        try write(clients.issuer.certificate.pem(), to: "\(directory)/gms-ca.pem")
        try write(servers.key.pem(), to: "\(directory)/server-ca.key", secret: true)
        try write(servers.issuer.certificate.pem(), to: "\(directory)/server-ca.pem")
        try write(serverKey.pem(), to: "\(directory)/server.key", secret: true)
        try write(server.pem(), to: "\(directory)/server.pem")
        return names.map { "\(directory)/\($0)" }
    }

    static func issue(from directory: String, keyFile: String, to path: String, days: Int) throws {
        let context = try LibraryContext()
        let issuer = try CertificateIssuer(
            certificate: Certificate.all(inPEM: read("\(directory)/gms-ca.pem"), context)[0],
            key: PrivateKey(pem: read("\(directory)/gms-ca.key"), context), context)
        let key = try publicKey(in: keyFile, context)
        guard key.isP256 else { throw Failure("\(keyFile): the key is not on P-256") }
        let id = try key.keyID(context).map(\.description) ?? ""
        // The subject names the key and nobody's person.
        let template = CertificateTemplate(
            purpose: .client, commonName: "device \(id.prefix(16))", lifetime: Int64(days) * day)
        try write(issuer.issue(template, for: key).pem(), to: path)
    }

    private static func authority(
        _ name: String, _ context: LibraryContext
    ) throws -> (issuer: CertificateIssuer, key: PrivateKey) {
        let key = try PrivateKey.generateP256(context)
        let issuer = try CertificateIssuer.selfSigned(
            commonName: name, lifetime: authorityDays * day, key: key, context)
        return (issuer, key)
    }

    private static func publicKey(in path: String, _ context: LibraryContext) throws -> PublicKey {
        let pem = try read(path)
        if let key = try? PrivateKey(pem: pem, context) { return key.publicKey }
        do {
            return try PublicKey(pem: pem, context)
        } catch {
            throw Failure("\(path) holds no PEM key, private or public")
        }
    }

    private static func read(_ path: String) throws -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else { throw Failure("cannot read \(path)") }
        return Array(data)
    }

    /// Creates the file, never replaces one; a secret is readable by its owner alone from the first moment on.
    private static func write(_ bytes: [UInt8], to path: String, secret: Bool = false) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, secret ? 0o600 : 0o644)
        guard descriptor >= 0 else { throw Failure("cannot create \(path): \(String(cString: strerror(errno)))") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try file.write(contentsOf: Data(bytes))
        } catch {
            throw Failure("cannot write \(path): \(error.localizedDescription)")
        }
    }
}
