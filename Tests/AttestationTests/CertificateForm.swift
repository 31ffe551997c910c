import COpenSSL
import Cryptography

/// The content of a certificate before it is signed. It may be malformed.
struct CertificateForm {
    struct Extension {
        /// In dotted form.
        var identifier: String
        var content: [UInt8]
        var isCritical = false

        init(_ identifier: String, _ content: [UInt8], isCritical: Bool = false) {
            self.identifier = identifier
            self.content = content
            self.isCritical = isCritical
        }
    }

    /// A key of an algorithm that OpenSSL does not support.
    struct UnknownKey {
        /// In dotted form.
        var algorithm: String
        var bytes: [UInt8]
    }

    /// The subject: OpenSSL's names of attributes, or dotted forms, with their values.
    var name: [(String, String)]
    /// The issuer, if it is not the subject of what signs.
    var issuer: [(String, String)]?
    var key: OpaquePointer
    /// Replaces the key.
    var unknownKey: UnknownKey?
    /// In seconds since 1970, both ends included.
    var validity: ClosedRange<Int64>
    var serial = UInt64.random(in: 1...UInt64(Int64.max))
    /// Extensions in OpenSSL's notation.
    var constraints: [(Int32, String)] = []
    var extensions: [Extension] = []
    var digest = "SHA256"

    init(name: [(String, String)], key: OpaquePointer, validity: ClosedRange<Int64>) {
        self.name = name
        self.key = key
        self.validity = validity
    }

    /// Returns the certificate.
    ///
    /// - Parameter issuer: The certificate with the issuer's name. Nil for the certificate itself.
    func sign(by signer: OpaquePointer, issuer: OpaquePointer?, _ library: LibraryContext) throws -> Certificate {
        guard let pointer = X509_new_ex(library.pointer, nil) else { throw CryptographyError(doing: "make") }
        let certificate = Certificate(owning: pointer)
        X509_set_version(pointer, 2)
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(pointer), serial)
        ASN1_TIME_set(X509_getm_notBefore(pointer), Int(validity.lowerBound))
        ASN1_TIME_set(X509_getm_notAfter(pointer), Int(validity.upperBound))
        X509_set_pubkey(pointer, key)
        if let unknownKey { try Self.set(unknownKey, in: pointer) }
        try Self.add(name, to: X509_get_subject_name(pointer))
        if let own = self.issuer {
            try Self.add(own, to: X509_get_issuer_name(pointer))
        } else {
            X509_set_issuer_name(pointer, X509_get_subject_name(issuer ?? pointer))
        }
        for (identifier, value) in constraints {
            let made = X509V3_EXT_conf_nid(nil, nil, identifier, value)
            X509_add_ext(pointer, made, -1)
            X509_EXTENSION_free(made)
        }
        for each in extensions { Self.add(each, to: pointer) }
        let digest = EVP_MD_fetch(library.pointer, digest, nil)
        defer { EVP_MD_free(digest) }
        guard X509_sign(pointer, signer, digest) > 0 else { throw CryptographyError.fromQueue(doing: "sign") }
        return certificate
    }

    private static func add(_ attributes: [(String, String)], to name: OpaquePointer?) throws {
        for (attribute, value) in attributes {
            guard X509_NAME_add_entry_by_txt(name, attribute, MBSTRING_UTF8, value, -1, -1, 0) == 1 else {
                throw CryptographyError.fromQueue(doing: "add \(attribute)")
            }
        }
    }

    private static func add(_ each: Extension, to certificate: OpaquePointer) {
        let object = OBJ_txt2obj(each.identifier, 1)
        let value = ASN1_OCTET_STRING_new()
        ASN1_OCTET_STRING_set(value, each.content, Int32(each.content.count))
        let made = X509_EXTENSION_create_by_OBJ(nil, object, each.isCritical ? 1 : 0, value)
        X509_add_ext(certificate, made, -1)
        X509_EXTENSION_free(made)
        ASN1_OCTET_STRING_free(value)
        ASN1_OBJECT_free(object)
    }

    private static func set(_ key: UnknownKey, in certificate: OpaquePointer) throws {
        // OpenSSL frees both.
        let room = CRYPTO_malloc(key.bytes.count, #file, #line)?.assumingMemoryBound(to: UInt8.self)
        room?.update(from: key.bytes, count: key.bytes.count)
        guard
            X509_PUBKEY_set0_param(
                X509_get_X509_PUBKEY(certificate), OBJ_txt2obj(key.algorithm, 1), V_ASN1_UNDEF, nil, room,
                Int32(key.bytes.count)) == 1
        else { throw CryptographyError.fromQueue(doing: "set a key") }
    }
}
