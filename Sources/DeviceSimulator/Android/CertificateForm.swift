internal import COpenSSL
package import Cryptography

/// The content of a certificate before it is signed. Unlike `CertificateTemplate`, it may be malformed: no gateway
/// issues by it.
package struct CertificateForm {
    package struct Extension {
        /// In dotted form.
        package var identifier: String
        package var content: [UInt8]
        package var isCritical = false

        package init(_ identifier: String, _ content: [UInt8], isCritical: Bool = false) {
            self.identifier = identifier
            self.content = content
            self.isCritical = isCritical
        }
    }

    /// An extension that OpenSSL encodes.
    package enum Constraint {
        case basicConstraints
        case keyUsage
        case subjectKeyIdentifier

        fileprivate var identifier: Int32 {
            switch self {
            case .basicConstraints: NID_basic_constraints
            case .keyUsage: NID_key_usage
            case .subjectKeyIdentifier: NID_subject_key_identifier
            }
        }
    }

    /// A key of an algorithm that OpenSSL does not support.
    package struct UnknownKey {
        /// In dotted form.
        package var algorithm: String
        package var bytes: [UInt8]

        package init(algorithm: String, bytes: [UInt8]) {
            self.algorithm = algorithm
            self.bytes = bytes
        }
    }

    /// The subject: OpenSSL's names of attributes, or dotted forms, with their values.
    package var name: [(String, String)]
    /// The issuer, if it is not the subject of what signs.
    package var issuer: [(String, String)]?
    package var key: PrivateKey
    /// Replaces the key.
    package var unknownKey: UnknownKey?
    /// In seconds since 1970, both ends included.
    package var validity: ClosedRange<Int64>
    package var serial = UInt64.random(in: 1...UInt64(Int64.max))
    /// Replaces the serial number: such as `-0x1f`, of any length.
    package var unusualSerial: String?
    /// Extensions with values in OpenSSL's notation.
    package var constraints: [(Constraint, String)] = []
    package var extensions: [Extension] = []
    package var digest = "SHA256"

    package init(name: [(String, String)], key: PrivateKey, validity: ClosedRange<Int64>) {
        self.name = name
        self.key = key
        self.validity = validity
    }

    /// Returns the certificate.
    ///
    /// - Parameter issuer: The certificate with the issuer's name. Nil for the certificate itself.
    package func sign(
        by signer: PrivateKey, issuer: Certificate? = nil, _ library: LibraryContext
    ) throws(CryptographyError) -> Certificate {
        ERR_clear_error()
        guard let pointer = X509_new_ex(library.pointer, nil) else { throw .fromQueue(doing: "create a certificate") }
        let certificate = Certificate(owning: pointer)
        guard X509_set_version(pointer, 2) == 1,  // version 3 is encoded as 2
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(pointer), serial) == 1,
            ASN1_TIME_set(X509_getm_notBefore(pointer), Int(validity.lowerBound)) != nil,
            ASN1_TIME_set(X509_getm_notAfter(pointer), Int(validity.upperBound)) != nil,
            X509_set_pubkey(pointer, key.pointer) == 1
        else { throw .fromQueue(doing: "fill in the certificate") }
        if let unusualSerial {
            let number = s2i_ASN1_INTEGER(nil, unusualSerial)
            defer { ASN1_INTEGER_free(number) }
            guard X509_set_serialNumber(pointer, number) == 1 else { throw .fromQueue(doing: "set the serial number") }
        }
        if let unknownKey { try Self.set(unknownKey, in: pointer) }
        try Self.add(name, to: X509_get_subject_name(pointer))
        if let own = self.issuer {
            try Self.add(own, to: X509_get_issuer_name(pointer))
        } else if X509_set_issuer_name(pointer, X509_get_subject_name(issuer?.pointer ?? pointer)) != 1 {
            throw .fromQueue(doing: "set the issuer")
        }
        for (constraint, value) in constraints { try Self.add(constraint, value, to: pointer) }
        for each in extensions { try Self.add(each, to: pointer) }
        let digest = EVP_MD_fetch(library.pointer, digest, nil)
        defer { EVP_MD_free(digest) }
        guard X509_sign(pointer, signer.pointer, digest) > 0 else { throw .fromQueue(doing: "sign a certificate") }
        return certificate
    }

    private static func add(
        _ attributes: [(String, String)], to name: OpaquePointer?
    ) throws(CryptographyError) {
        for (attribute, value) in attributes {
            guard X509_NAME_add_entry_by_txt(name, attribute, MBSTRING_UTF8, value, -1, -1, 0) == 1 else {
                throw .fromQueue(doing: "add \(attribute) to a name")
            }
        }
    }

    private static func add(
        _ constraint: Constraint, _ value: String, to certificate: OpaquePointer
    ) throws(CryptographyError) {
        var settings = X509V3_CTX()
        X509V3_set_ctx(&settings, certificate, certificate, nil, nil, 0)
        guard let made = X509V3_EXT_conf_nid(nil, &settings, constraint.identifier, value) else {
            throw .fromQueue(doing: "make the extension \(constraint)")
        }
        defer { X509_EXTENSION_free(made) }
        guard X509_add_ext(certificate, made, -1) == 1 else { throw .fromQueue(doing: "add an extension") }
    }

    private static func add(_ each: Extension, to certificate: OpaquePointer) throws(CryptographyError) {
        let object = OBJ_txt2obj(each.identifier, 1)
        defer { ASN1_OBJECT_free(object) }
        let value = ASN1_OCTET_STRING_new()
        defer { ASN1_OCTET_STRING_free(value) }
        guard object != nil, value != nil, ASN1_OCTET_STRING_set(value, each.content, Int32(each.content.count)) == 1,
            let made = X509_EXTENSION_create_by_OBJ(nil, object, each.isCritical ? 1 : 0, value)
        else { throw .fromQueue(doing: "make the extension \(each.identifier)") }
        defer { X509_EXTENSION_free(made) }
        guard X509_add_ext(certificate, made, -1) == 1 else { throw .fromQueue(doing: "add an extension") }
    }

    private static func set(_ key: UnknownKey, in certificate: OpaquePointer) throws(CryptographyError) {
        // OpenSSL frees both.
        let room = CRYPTO_malloc(key.bytes.count, #file, #line)?.assumingMemoryBound(to: UInt8.self)
        room?.update(from: key.bytes, count: key.bytes.count)
        guard
            X509_PUBKEY_set0_param(
                X509_get_X509_PUBKEY(certificate), OBJ_txt2obj(key.algorithm, 1), V_ASN1_UNDEF, nil, room,
                Int32(key.bytes.count)) == 1
        else { throw .fromQueue(doing: "set a key") }
    }
}
