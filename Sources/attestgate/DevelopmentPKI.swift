internal import Cryptography
internal import Foundation
internal import Lifecycle

/// Certificates for development and tests, as files. Not for production: the CA key lies beside the certificates.
enum DevelopmentPKI {
    private static let day: Int64 = 86_400
    private static let authorityDays: Int64 = 3_650
    /// What browsers and phones still accept of a server certificate.
    private static let serverDays: Int64 = 397
    private static let clientDays: Int64 = 30

    private static let names = [
        "gms-ca.pem", "gms-ca.key", "server-ca.pem", "server-ca.key", "server.pem", "server.key",
    ]

    /// Whether files may be called so: nothing that leads elsewhere, and none of the names above.
    static func isName(_ text: String) -> Bool {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): true
            default: false
            }
        }
        return isPlain && (1...64).contains(text.utf8.count) && !names.contains("\(text).pem")
    }

    /// - Parameter client: the name of the files for a client to try with, if there is to be one.
    /// - Returns: the paths written.
    static func create(in directory: String, hosts: [String], client: String?) throws -> [String] {
        let names = names + (client.map { ["\($0).pem", "\($0).key"] } ?? [])
        let folder = URL(fileURLWithPath: directory, isDirectory: true)
        // All or nothing: a directory half made by an earlier run would be worse than none.
        for name in names where FileManager.default.fileExists(atPath: folder.appendingPathComponent(name).path) {
            throw Failure("\(directory)/\(name) already exists; nothing was written")
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

        try OutputFile.create(clients.key.pem(), at: "\(directory)/gms-ca.key", secret: true)
        try OutputFile.create(clients.issuer.certificate.pem(), at: "\(directory)/gms-ca.pem")
        try OutputFile.create(servers.key.pem(), at: "\(directory)/server-ca.key", secret: true)
        try OutputFile.create(servers.issuer.certificate.pem(), at: "\(directory)/server-ca.pem")
        try OutputFile.create(serverKey.pem(), at: "\(directory)/server.key", secret: true)
        try OutputFile.create(server.pem(), at: "\(directory)/server.pem")
        if let client {
            let key = try PrivateKey.generateP256(context)
            let template = CertificateTemplate(purpose: .client, commonName: client, lifetime: clientDays * day)
            try OutputFile.create(key.pem(), at: "\(directory)/\(client).key", secret: true)
            try OutputFile.create(
                clients.issuer.issue(template, for: key.publicKey).pem(), at: "\(directory)/\(client).pem")
        }
        return names.map { "\(directory)/\($0)" }
    }

    /// The authority that issues for phones, among the files `create` has written.
    static func clientAuthority(in directory: String) -> AuthorityFiles {
        AuthorityFiles(certificatePath: "\(directory)/gms-ca.pem", keyPath: "\(directory)/gms-ca.key")
    }

    private static func authority(
        _ name: String, _ context: LibraryContext
    ) throws -> (issuer: CertificateIssuer, key: PrivateKey) {
        let key = try PrivateKey.generateP256(context)
        let issuer = try CertificateIssuer.selfSigned(
            commonName: name, lifetime: authorityDays * day, key: key, context)
        return (issuer, key)
    }
}
