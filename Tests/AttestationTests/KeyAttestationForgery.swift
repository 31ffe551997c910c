import Attestation
import COpenSSL
import Cryptography
import Encoding

/// The key description of a phone with a locked bootloader, except for the test's changes.
struct KeyDescriptionForgery {
    /// An entry of an authorization list: a tag and an encoded value.
    struct Entry {
        var tag: UInt32
        var value: [UInt8]

        init(_ tag: UInt32, _ value: [UInt8]) {
            self.tag = tag
            self.value = value
        }
    }

    var attestationVersion: UInt64 = 300
    var attestationLevel: UInt8 = 1
    var keyMintVersion: UInt64 = 300
    var keyMintLevel: UInt8 = 1
    var challenge = [UInt8](repeating: 7, count: 32)
    var uniqueID: [UInt8] = []
    var software: [Entry] = [
        Entry(701, number(1_790_000_000_000)),
        Entry(709, application([(Self.package, 1042)], [Self.signer])),
    ]
    var hardware: [Entry] = [
        Entry(1, numbers([2, 3])), Entry(2, number(3)), Entry(3, number(256)), Entry(5, numbers([4])),
        Entry(10, number(1)), Entry(503, null), Entry(702, number(0)), Entry(704, rootOfTrust()),
        Entry(705, number(160_000)), Entry(706, number(202_602)), Entry(718, number(20_260_205)),
        Entry(719, number(20_260_201)),
    ]
    /// Items after the two lists.
    var further: [UInt8] = []

    static let package = "org.example.app"
    static let signer = [UInt8](repeating: 0xa5, count: 32)
    static let null: [UInt8] = [5, 0]

    static func number(_ value: UInt64) -> [UInt8] { DERWriter.integer(bigEndian(value, 8)) }

    static func numbers(_ values: [UInt64]) -> [UInt8] { DERWriter.item([0x31], values.flatMap(number)) }

    static func rootOfTrust(
        isLocked: UInt8 = 0xff, state: UInt8 = 0, key: [UInt8] = .init(repeating: 1, count: 32),
        hash: [UInt8]? = .init(repeating: 2, count: 32)
    ) -> [UInt8] {
        DERWriter.sequence(
            DERWriter.octetString(key), [1, 1, isLocked], [10, 1, state], hash.map(DERWriter.octetString) ?? [])
    }

    static func application(_ packages: [(String, UInt64)], _ signers: [[UInt8]]) -> [UInt8] {
        DERWriter.octetString(
            DERWriter.sequence(
                DERWriter.item(
                    [0x31],
                    packages.flatMap { DERWriter.sequence(DERWriter.octetString(Array($0.0.utf8)), number($0.1)) }),
                DERWriter.item([0x31], signers.flatMap(DERWriter.octetString))))
    }

    var der: [UInt8] {
        func list(_ entries: [Entry]) -> [UInt8] {
            DERWriter.item([0x30], entries.flatMap { DERWriter.explicit($0.tag, $0.value) })
        }
        return DERWriter.sequence(
            Self.number(attestationVersion), [10, 1, attestationLevel], Self.number(keyMintVersion),
            [10, 1, keyMintLevel], DERWriter.octetString(challenge), DERWriter.octetString(uniqueID), list(software),
            list(hardware), further)
    }

    /// Replaces the value of a tag, or adds the tag. Nil removes it.
    mutating func setHardware(_ tag: UInt32, _ value: [UInt8]?) { Self.set(tag, value, in: &hardware) }
    mutating func setSoftware(_ tag: UInt32, _ value: [UInt8]?) { Self.set(tag, value, in: &software) }

    private static func set(_ tag: UInt32, _ value: [UInt8]?, in list: inout [Entry]) {
        let position = list.firstIndex { $0.tag == tag } ?? list.count
        list.removeAll { $0.tag == tag }
        if let value { list.insert(Entry(tag, value), at: position) }
    }
}

/// A chain of certificates below a test's root. It is genuine except for the test's changes before signing.
struct KeyAttestationForgery {
    let library: LibraryContext
    /// The certificates, leaf first and root last.
    var links: [CertificateForm]
    /// The leaf's key description.
    var description = KeyDescriptionForgery()
    /// What the leaf states instead. Nil for the description.
    var leafDescriptions: [[UInt8]]?
    /// Who signs a certificate, by its position, if it is not the next one's key.
    var signers: [Int: OpaquePointer] = [:]
    var sendsRoot = true
    var app = AndroidApp(package: KeyDescriptionForgery.package, signingCertificates: [KeyDescriptionForgery.signer])
    var list: AttestationStatusList? = AttestationStatusList(serials: [])
    var time = Self.time
    var clientDataHash = [UInt8](repeating: 7, count: 32)

    static let time: Int64 = 1_790_000_000
    static let validity: ClosedRange<Int64> = 1_600_000_000...2_000_000_000

    enum Kind: CaseIterable {
        case factory
        case remote
    }

    init(_ kind: Kind, _ library: LibraryContext) throws {
        self.library = library
        func link(_ name: (String, String)...) throws -> CertificateForm {
            CertificateForm(name: name, key: try TestAuthority.key("P-256", library), validity: Self.validity)
        }
        var leaf = try link(("CN", "Android Keystore Key"))
        leaf.serial = 1
        leaf.validity = 0...4_000_000_000
        let root = try link(("serialNumber", "f92009e853b6b045"))
        switch kind {
        case .factory:
            links = [
                leaf, try link(("title", "TEE"), ("serialNumber", "884f819dc0122db1")),
                try link(("title", "TEE"), ("serialNumber", "e0c3548a47e73f2a")), root,
            ]
        case .remote:
            links = [
                leaf, try link(("CN", "2c85cdc15c3042f2"), ("O", "TEE")),
                try link(("CN", "Droid CA3"), ("O", "Google LLC")), try link(("CN", "Droid CA2"), ("O", "Google LLC")),
                root,
            ]
        }
    }

    var rootCertificate: Certificate { get throws { try certificate(links.count - 1) } }

    private func certificate(_ position: Int) throws -> Certificate {
        var form = links[position]
        if position == 0 {
            form.extensions +=
                (leafDescriptions ?? [description.der]).map { .init(KeyDescription.identifier, $0) }
        }
        let next = links[min(position + 1, links.count - 1)]
        form.issuer = form.issuer ?? next.name
        return try form.sign(by: signers[position] ?? next.key, issuer: nil, library)
    }

    /// Returns the certificates to send, leaf first.
    func certificates() throws -> [[UInt8]] {
        try links.indices.dropLast(sendsRoot ? 0 : 1).map { try certificate($0).der() }
    }

    func evidence() throws -> KeyAttestationEvidence {
        KeyAttestationEvidence(certificates: try certificates(), clientDataHash: clientDataHash)
    }

    func verifier() throws -> KeyAttestationVerifier {
        KeyAttestationVerifier(apps: [app], roots: .init(google: [try rootCertificate]), library)
    }

    /// Inserts the certificate of a key of the app's own, which signs the leaf.
    mutating func insertAttestKey(_ description: KeyDescriptionForgery? = nil) throws {
        let attestKey = description ?? Self.attestKey
        var link = links[0]
        link.key = try TestAuthority.key("P-256", library)
        link.name = [("CN", "Attest key")]
        link.extensions.append(.init(KeyDescription.identifier, attestKey.der))
        links.insert(link, at: 1)
    }

    /// The description of a key that attests others.
    static let attestKey: KeyDescriptionForgery = {
        var attestKey = KeyDescriptionForgery()
        attestKey.setHardware(1, KeyDescriptionForgery.numbers([7]))
        return attestKey
    }()

    /// Verification and report have another verdict.
    struct Disagreement: Error {
        let verified: KeyAttestationFault?
        let reported: KeyAttestationFault?
    }

    /// Returns the first fault, nil for acceptance.
    ///
    /// - Throws: if report and verification disagree.
    func fault(_ sent: [[UInt8]]? = nil) throws -> KeyAttestationFault? {
        let evidence = KeyAttestationEvidence(
            certificates: try sent ?? certificates(), clientDataHash: clientDataHash)
        return try verifier().fault(of: evidence, at: time, list)
    }
}

extension KeyAttestationVerifier {
    /// Returns the first fault, nil for acceptance.
    ///
    /// - Throws: if report and verification disagree.
    func fault(
        of evidence: KeyAttestationEvidence, at time: Int64, _ list: AttestationStatusList?
    ) throws -> KeyAttestationFault? {
        let report = report(evidence, at: time, list, judgesChainOnly: false)
        var verified: KeyAttestationFault?
        do throws(KeyAttestationFault) { _ = try verify(evidence, at: time, list) } catch { verified = error }
        guard report.isAccepted == (report.fault == nil), report.fault == verified else {
            throw KeyAttestationForgery.Disagreement(verified: verified, reported: report.fault)
        }
        return verified
    }
}
