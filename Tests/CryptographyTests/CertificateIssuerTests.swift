import COpenSSL
import Cryptography
import Testing

@Suite("Issuing certificates")
struct CertificateIssuerTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    @Test("a root issues for an authority, which issues for a client: the chain verifies")
    func chain() throws {
        let rootKey = try PrivateKey.generateP384(context)
        let root = try CertificateIssuer.selfSigned(
            .rootAuthority, commonName: "root", lifetime: 3_600, key: rootKey, context)
        let key = try PrivateKey.generateP384(context)
        let template = CertificateTemplate(purpose: .authority, commonName: "intermediate", lifetime: 3_600)
        let intermediate = try CertificateIssuer(
            certificate: root.issue(template, for: key.publicKey), key: key, context)
        let leaf = try intermediate.issue(
            CertificateTemplate(purpose: .client, commonName: "leaf", lifetime: 3_600),
            for: PrivateKey.generateP256(context).publicKey)
        #expect(root.certificate.isAuthority && intermediate.certificate.isAuthority && !leaf.isAuthority)
        #expect(verify(leaf, through: [intermediate.certificate], to: root.certificate) == X509_V_OK)

        // One level below the root and no more.
        let deeperKey = try PrivateKey.generateP384(context)
        let deeperTemplate = CertificateTemplate(purpose: .authority, commonName: "deeper", lifetime: 3_600)
        let deeper = try CertificateIssuer(
            certificate: intermediate.issue(deeperTemplate, for: deeperKey.publicKey), key: deeperKey, context)
        let tooDeep = try deeper.issue(
            CertificateTemplate(purpose: .client, commonName: "leaf", lifetime: 3_600),
            for: PrivateKey.generateP256(context).publicKey)
        let path = [deeper.certificate, intermediate.certificate]
        #expect(verify(tooDeep, through: path, to: root.certificate) == X509_V_ERR_PATH_LENGTH_EXCEEDED)
    }

    @Test("a public key goes to PEM and back")
    func publicKeys() throws {
        let key = try PrivateKey.generateP256(context).publicKey
        let read = try PublicKey(pem: key.pem(), context)
        #expect(read.uncompressedPoint == key.uncompressedPoint)
    }

    private func verify(_ leaf: Certificate, through path: [Certificate], to root: Certificate) -> Int32 {
        let store = X509_STORE_new()
        let untrusted = OPENSSL_sk_new_null()
        let verification = X509_STORE_CTX_new_ex(context.pointer, nil)
        defer {
            X509_STORE_CTX_free(verification)
            OPENSSL_sk_free(untrusted)
            X509_STORE_free(store)
        }
        X509_STORE_add_cert(store, root.pointer)
        for certificate in path { OPENSSL_sk_push(untrusted, UnsafeRawPointer(certificate.pointer)) }
        X509_STORE_CTX_init(verification, store, leaf.pointer, untrusted)
        X509_verify_cert(verification)
        return withExtendedLifetime(path) { X509_STORE_CTX_get_error(verification) }
    }
}
