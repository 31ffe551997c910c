public import Vocabulary

/// What a certificate is to say, before somebody signs it.
public struct CertificateTemplate: Sendable {
    /// What the certificate is for: decides basic constraints, key usage and extended key usage.
    public enum Purpose: Sendable {
        /// A certification authority that issues end-entity certificates only.
        case authority
        /// A certification authority above such authorities, one level and no more.
        case rootAuthority
        /// TLS server, for these DNS names or IP addresses.
        case server(names: [String])
        /// TLS client: the certificate of a phone's `keypair_mTLS`.
        case client
        /// TLS client of a registered device, which an alternative name tells: `urn:attestgate:device:<key id>`, the key id
        /// of its hardware key in lower-case hexadecimal.
        case device(KeyID)
        /// No TLS: speaks for a key by extensions of the issuer's own, as App Attest's leafs do.
        case attestedKey([OwnExtension])
    }

    /// An extension that OpenSSL does not know, not critical.
    public struct OwnExtension: Sendable {
        /// In dotted decimal.
        public let identifier: String
        /// DER.
        public let value: [UInt8]

        public init(identifier: String, value: [UInt8]) {
            self.identifier = identifier
            self.value = value
        }
    }

    public var purpose: Purpose
    /// The subject's common name; at most 64 characters (X.520).
    public var commonName: String
    public var end: End
    /// Nil if it is to be drawn when the certificate is issued.
    public var serial: CertificateSerial?

    /// When validity ends. It begins five minutes before the certificate is issued, for clocks that are behind.
    public enum End: Sendable {
        /// So many seconds after the certificate is issued.
        case after(Int64)
        /// In seconds since 1970.
        case at(Int64)
    }

    /// - Parameter lifetime: in seconds from the moment the certificate is issued.
    public init(purpose: Purpose, commonName: String, lifetime: Int64) {
        self.init(purpose: purpose, commonName: commonName, end: .after(lifetime), serial: nil)
    }

    public init(purpose: Purpose, commonName: String, end: End, serial: CertificateSerial?) {
        self.purpose = purpose
        self.commonName = commonName
        self.end = end
        self.serial = serial
    }

    /// The extensions in OpenSSL's notation. The key identifiers come first: the authority's may refer to the subject's.
    var extensions: [(identifier: ExtensionIdentifier, value: String)] {
        switch purpose {
        case .authority:
            [
                (.subjectKeyIdentifier, "hash"),
                (.basicConstraints, "critical,CA:TRUE,pathlen:0"),
                (.keyUsage, "critical,keyCertSign,cRLSign"),
            ]
        case .rootAuthority:
            [
                (.subjectKeyIdentifier, "hash"),
                (.basicConstraints, "critical,CA:TRUE,pathlen:1"),
                (.keyUsage, "critical,keyCertSign,cRLSign"),
            ]
        case .server(let names):
            [
                (.subjectKeyIdentifier, "hash"),
                (.authorityKeyIdentifier, "keyid:always"),
                (.basicConstraints, "critical,CA:FALSE"),
                (.keyUsage, "critical,digitalSignature"),
                (.extendedKeyUsage, "serverAuth"),
                (
                    .subjectAlternativeName,
                    names.map { (Self.isAddress($0) ? "IP:" : "DNS:") + $0 }.joined(separator: ",")
                ),
            ]
        case .client:
            Self.clientExtensions
        case .device(let keyID):
            // Hexadecimal: nothing in it that this notation would read as the beginning of another name.
            Self.clientExtensions + [(.subjectAlternativeName, "URI:urn:attestgate:device:\(keyID)")]
        case .attestedKey:
            [(.basicConstraints, "critical,CA:FALSE"), (.keyUsage, "critical,digitalSignature")]
        }
    }

    var ownExtensions: [OwnExtension] { if case .attestedKey(let extensions) = purpose { extensions } else { [] } }

    private static let clientExtensions: [(identifier: ExtensionIdentifier, value: String)] = [
        (.subjectKeyIdentifier, "hash"),
        (.authorityKeyIdentifier, "keyid:always"),
        (.basicConstraints, "critical,CA:FALSE"),
        (.keyUsage, "critical,digitalSignature"),
        (.extendedKeyUsage, "clientAuth"),
    ]

    enum ExtensionIdentifier {
        case subjectKeyIdentifier
        case authorityKeyIdentifier
        case basicConstraints
        case keyUsage
        case extendedKeyUsage
        case subjectAlternativeName
    }

    private static func isAddress(_ name: String) -> Bool {
        name.contains(":") || name.utf8.allSatisfy { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) }
    }
}
