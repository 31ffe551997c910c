package import Cryptography

/// The certificates of an attested key before they are signed, in the shape of Google's. They may be malformed.
package struct KeyAttestationChain {
    /// The certificates, leaf first and root last.
    package var links: [CertificateForm]
    /// The leaf's key description.
    package var description: KeyDescriptionForm
    /// What the leaf states instead. Nil for the description.
    package var leafDescriptions: [[UInt8]]?
    /// Who signs a certificate, by its position, if it is not the next one's key.
    package var signers: [Int: PrivateKey] = [:]

    /// The seconds in which leaf certificates are valid, on every phone: from 1970 on.
    private static let leafValidity: ClosedRange<Int64> = 0...4_000_000_000

    /// Creates the chain of a key.
    ///
    /// - Parameters:
    ///   - keys: The keys, the attested one first and the root's last: as many as the provisioning has certificates.
    ///   - validity: Of the certificates above the leaf, in seconds since 1970.
    package init(
        _ description: KeyDescriptionForm, provisioning: AndroidPhone.Provisioning, keys: [PrivateKey],
        root: [(String, String)] = [("serialNumber", "f92009e853b6b045")], validity: ClosedRange<Int64>
    ) {
        self.description = description
        let isStrongBox = description.keyMintLevel == AndroidPhone.SecurityLevel.strongBox.rawValue
        let level = isStrongBox ? "StrongBox" : "TEE"
        var names = [[("CN", "Android Keystore Key")]]
        switch provisioning {
        case .factory:
            names += [
                [("title", level), ("serialNumber", "884f819dc0122db1")],
                [("title", level), ("serialNumber", "e0c3548a47e73f2a")],
            ]
        case .remote:
            names += [
                [("CN", "2c85cdc15c3042f2"), ("O", level)], [("CN", "Droid CA3"), ("O", "Google LLC")],
                [("CN", "Droid CA2"), ("O", "Google LLC")],
            ]
        }
        names.append(root)
        links = zip(names, keys).map { CertificateForm(name: $0, key: $1, validity: validity) }
        links[0].serial = 1
        links[0].validity = Self.leafValidity
    }

    /// The number of certificates, with the root.
    package static func length(_ provisioning: AndroidPhone.Provisioning) -> Int { provisioning == .factory ? 4 : 5 }

    /// Returns one certificate.
    package func certificate(_ position: Int, _ library: LibraryContext) throws(CryptographyError) -> Certificate {
        var form = links[position]
        if position == 0 {
            form.extensions += (leafDescriptions ?? [description.der]).map { .init(KeyDescriptionForm.identifier, $0) }
        }
        let next = links[min(position + 1, links.count - 1)]
        form.issuer = form.issuer ?? next.name
        return try form.sign(by: signers[position] ?? next.key, library)
    }

    /// Returns all certificates in DER, leaf first.
    package func certificates(_ library: LibraryContext) throws(CryptographyError) -> [[UInt8]] {
        var encodings: [[UInt8]] = []
        for position in links.indices { encodings.append(try certificate(position, library).der()) }
        return encodings
    }
}
