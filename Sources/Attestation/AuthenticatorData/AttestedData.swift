/// The authenticator data of an attestation (WebAuthn sections 6.1 and 6.5.1): the fixed part, AAGUID, credential id,
/// exactly one COSE key, then nothing or the extensions. The flags decide nothing, as `AuthenticatorData` tells.
public struct AttestedData: Equatable, Sendable {
    /// Where all of it lies: what the nonce covers.
    public let range: Range<Int>
    public let flags: UInt8
    public let counter: UInt32
    /// Where the 16 bytes lie that name the environment of the key.
    public let aaguid: Range<Int>
    public let credentialID: Range<Int>
    /// Nil if the COSE key is of another kind than the one Apple attests.
    public let key: COSEKey?
    /// Where the extensions lie; empty up to iOS 26. Not looked into here.
    public let extensions: Range<Int>

    /// Where the SHA-256 of the app id lies.
    public var rpIDHash: Range<Int> { range.lowerBound..<(range.lowerBound + 32) }

    /// AAGUID and the length of the credential id.
    private static let credentialHead = 16 + 2

    /// - Parameters:
    ///   - bytes: what holds the authenticator data; all ranges count from its beginning.
    ///   - range: where in them it lies; must lie within `bytes`.
    public init(_ bytes: Span<UInt8>, in range: Range<Int>) throws(AuthenticatorDataFault) {
        guard range.count >= AuthenticatorData.fixedLength else { throw .tooShort }
        let start = range.lowerBound
        let credential = start + AuthenticatorData.fixedLength
        guard range.upperBound - credential >= Self.credentialHead else { throw .credential(.truncated) }
        let length = Int(bytes[credential + 16]) << 8 | Int(bytes[credential + 17])
        let idStart = credential + Self.credentialHead
        guard range.upperBound - idStart >= length else { throw .credential(.truncated) }

        self.range = range
        flags = bytes[start + 32]
        counter = AuthenticatorData.counter(bytes, at: start + 33)
        aaguid = credential..<(credential + 16)
        credentialID = idStart..<(idStart + length)
        do throws(CBORFault) {
            var reader = CBORReader(bytes, in: (idStart + length)..<range.upperBound)
            key = try COSEKey.read(&reader)
            extensions = reader.position..<range.upperBound
        } catch {
            throw .credential(error)
        }
    }
}
