public import Cryptography
internal import Encoding
internal import Foundation

/// A health card in files, with the key that signs registrations.
///
/// | file | content |
/// |---|---|
/// | `card-authority.pem`, `.key` | the authority of the cards in this directory |
/// | `card.pem`, `card.key` | the card's certificate and key, on brainpoolP256r1 |
public struct SoftwareCard {
    /// The number of the insured person.
    public let number: String
    private let certificate: [UInt8]
    private let key: PrivateKey
    private let library: LibraryContext

    private static let validity: Int64 = 1_825 * 86_400
    private static let authorityName = [("CN", "AttestGate Device Simulator Card CA (not a health insurance)")]

    /// Opens a card made by `create`.
    public init(opening directory: String, _ library: LibraryContext) throws {
        let path = directory + "/card.pem"
        guard SimulatorFile.exists(path) else {
            throw SimulatorError("there is no card in \(directory): create one with attestgate-device card")
        }
        let certificates = try Certificate.all(inPEM: SimulatorFile.read(path), library)
        guard let certificate = certificates.first, let number = certificate.subjectValues("2.5.4.11").last else {
            throw SimulatorError("\(path) contains no card's certificate")
        }
        self.number = String(decoding: number, as: UTF8.self)
        self.certificate = try certificate.der()
        self.library = library
        key = try PrivateKey(pem: SimulatorFile.read(directory + "/card.key"), library)
    }

    /// Creates a card, and its authority unless that exists. Replaces nothing.
    ///
    /// - Parameter number: A letter and nine digits.
    /// - Returns: the paths of the new files.
    public static func create(in directory: String, number: String) throws -> [String] {
        let library = try LibraryContext()
        let (cardPath, cardKeyPath) = (directory + "/card.pem", directory + "/card.key")
        for path in [cardPath, cardKeyPath] where SimulatorFile.exists(path) {
            throw SimulatorError("\(path) already exists; nothing was written")
        }
        try SimulatorFile.makeDirectory(directory)
        let (authority, authorityKey, made) = try authority(in: directory, library)
        let key = try PrivateKey.generateBrainpoolP256(library)
        var form = form([("C", "DE"), ("OU", "000000000"), ("OU", number), ("CN", "Card of \(number)")], key)
        form.constraints = [(.basicConstraints, "critical,CA:FALSE"), (.keyUsage, "critical,digitalSignature")]
        let card = try form.sign(by: authorityKey, issuer: authority, library)
        try SimulatorFile.create(cardPath, card.pem())
        try SimulatorFile.create(cardKeyPath, key.pem())
        return made + [cardPath, cardKeyPath]
    }

    private static func form(_ name: [(String, String)], _ key: PrivateKey) -> CertificateForm {
        let now = Int64(Date().timeIntervalSince1970)
        return CertificateForm(name: name, key: key, validity: (now - 300)...(now + validity))
    }

    private static func authority(
        in directory: String, _ library: LibraryContext
    ) throws -> (certificate: Certificate, key: PrivateKey, made: [String]) {
        let (path, keyPath) = (directory + "/card-authority.pem", directory + "/card-authority.key")
        if SimulatorFile.exists(path) {
            guard let certificate = try Certificate.all(inPEM: SimulatorFile.read(path), library).first else {
                throw SimulatorError("\(path) contains no certificate")
            }
            return (certificate, try PrivateKey(pem: SimulatorFile.read(keyPath), library), [])
        }
        let key = try PrivateKey.generateBrainpoolP256(library)
        var form = form(authorityName, key)
        form.constraints = [
            (.subjectKeyIdentifier, "hash"), (.basicConstraints, "critical,CA:TRUE,pathlen:0"),
            (.keyUsage, "critical,keyCertSign,cRLSign"),
        ]
        let certificate = try form.sign(by: key, library)
        try SimulatorFile.create(keyPath, key.pem())
        try SimulatorFile.create(path, certificate.pem())
        return (certificate, key, [keyPath, path])
    }

    /// Signs a registration token.
    ///
    /// - Parameter claims: JSON.
    func sign(_ claims: [UInt8]) throws -> String {
        try DSRToken.sign(claims, algorithm: "BP256R1", certificate: certificate, key, library)
    }
}

/// A JWS of gematik's Device Security Rating.
enum DSRToken {
    static func sign(
        _ claims: [UInt8], algorithm: String, certificate: [UInt8], _ key: PrivateKey, _ library: LibraryContext
    ) throws -> String {
        let header = JSONWriter.object { header in
            header.member("alg", algorithm)
            header.member("x5c", [Base64.encode(certificate)])
        }
        let input = "\(Base64URL.encode(header)).\(Base64URL.encode(claims))"
        let signature = try key.sign(digest: library.sha256(of: Array(input.utf8).span), library)
        guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
            throw SimulatorError("a signature cannot be encoded")
        }
        return "\(input).\(Base64URL.encode(fixed))"
    }
}
