/// What is wrong with authenticator data.
public enum AuthenticatorDataFault: Error, Equatable, Sendable {
    /// Less than the 37 bytes every form has (WebAuthn section 6.1).
    case tooShort
    /// What follows them is not exactly one map from text to what Apple's extensions hold.
    case extensions(CBORFault)
    /// A code directory hash without its type, a type without a hash, or a hash of an impossible length.
    case codeDirectoryHash
    /// An attestation's ends before or inside the AAGUID, the credential id or the COSE key, or the key is no CBOR map.
    case credential(CBORFault)
}

extension AuthenticatorDataFault {
    /// For the log, and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .tooShort: "the authenticator data is shorter than 37 bytes"
        case .extensions(let fault): fault.reason
        case .codeDirectoryHash: "the code directory hash of the authenticator data is incomplete"
        case .credential(let fault): fault.reason
        }
    }
}
