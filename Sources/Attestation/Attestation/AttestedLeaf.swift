internal import Cryptography

/// The certificate of an attested key, and what Apple has written into it.
struct AttestedLeaf {
    let certificate: Certificate
    /// 65 bytes: uncompressed.
    let point: [UInt8]
    let keyID: Digest256

    init(_ certificate: Certificate, _ library: LibraryContext) throws(AttestationFault) {
        guard let key = certificate.publicKey, key.isP256, let point = key.uncompressedPoint, point.count == 65 else {
            throw .leafKey
        }
        self.certificate = certificate
        self.point = point
        do throws(CryptographyError) { keyID = try library.sha256(of: point.span) } catch {
            throw .checkFailed(.certificates, error)
        }
    }

    /// The 32 bytes of the one extension that has them.
    func nonce() throws(AttestationFault) -> [UInt8] {
        let values = certificate.extensionValues(LeafExtensions.nonce)
        guard let value = values.first, values.count == 1 else { throw .nonceExtensionCount(values.count) }
        do throws(DERFault) {
            return Array(value[try LeafExtensions.nonce(in: value.span)])
        } catch {
            throw .nonceExtensionForm(error)
        }
    }

    /// The app id: [1204] of the undocumented extension on the key's use.
    static func appID(in certificate: Certificate) -> String? {
        let number: UInt32 = 1204
        guard let value = certificate.extensionValues(LeafExtensions.keyUse).first else { return nil }
        return try? LeafExtensions.texts(in: value.span, [number])[number]
    }
}
