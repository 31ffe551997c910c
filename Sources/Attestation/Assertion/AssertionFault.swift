public import Cryptography

/// Why an assertion is refused. One case for each thing that is checked.
public enum AssertionFault: Error, Equatable, Sendable {
    /// More than `Assertion.lengthLimit` bytes.
    case tooLong
    /// Not one CBOR map of Apple's kind.
    case malformed(CBORFault)
    /// An entry that no assertion of Apple's has.
    case unknownEntry
    /// No `signature`, or no `authenticatorData`.
    case entryMissing
    case authenticatorData(AuthenticatorDataFault)
    /// Made by another app than the one admitted, or for another.
    case rpIDMismatch
    /// Counter 0: only attestations have it.
    case counterZero
    /// Not this key's signature over this authenticator data and client data hash.
    case signatureInvalid
    /// The check could not be made. The gateway's fault, not the client's; the assertion counts as refused.
    case checkFailed(CryptographyError)
}

extension AssertionFault {
    /// The checks, in the order they are made: the cheap ones first.
    public enum Step: Sendable, CaseIterable {
        /// Size, CBOR, entries, authenticator data.
        case form
        /// RP id hash = SHA-256 of the app id (Apple's step 4).
        case rpID
        /// The counter is at least 1. That it is above the last one (Apple's step 5) is for the registry to say.
        case counter
        /// The signature over SHA-256(authenticator data || client data hash) (Apple's steps 1 to 3).
        case signature
    }

    /// The check that refused.
    public var step: Step {
        switch self {
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData: .form
        case .rpIDMismatch: .rpID
        case .counterZero: .counter
        case .signatureInvalid, .checkFailed: .signature
        }
    }

    /// For the log, and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .tooLong: "the assertion is longer than 4096 bytes"
        case .malformed(let fault): fault.reason
        case .unknownEntry: "the assertion has an entry other than signature and authenticatorData"
        case .entryMissing: "the assertion lacks signature or authenticatorData"
        case .authenticatorData(let fault): fault.reason
        case .rpIDMismatch: "the assertion was made by another app"
        case .counterZero: "the assertion's counter is 0"
        case .signatureInvalid: "the assertion's signature does not verify"
        case .checkFailed: "the assertion could not be checked"
        }
    }
}
