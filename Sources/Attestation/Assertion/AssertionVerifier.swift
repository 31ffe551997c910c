public import Cryptography

/// Verifies assertions as Apple's "Validating apps that connect to your server" describes, except for the two steps
/// that need state: the registry checks the counter, the creator of the client data checks the challenge.
public enum AssertionVerifier {
    /// Makes all checks, in the order of `AssertionFault.Step`.
    ///
    /// - Parameters:
    ///   - assertion: as it came, CBOR.
    ///   - clientDataHash: what the app gave to `generateAssertion(_:clientDataHash:)`: 32 bytes in a request proof; of
    ///     any length here, for Apple's own samples pass other ones.
    ///   - key: the hardware key of the device that is to have made the assertion.
    ///   - rpIDHash: the SHA-256 of the app id, 32 bytes.
    ///   - digests: computes the digests, and belongs to the calling thread as `key` does.
    public static func verify(
        _ assertion: Span<UInt8>, clientDataHash: Span<UInt8>, key: P256VerificationKey, rpIDHash: Span<UInt8>,
        digests: LibraryContext
    ) throws(AssertionFault) -> VerifiedAssertion {
        let parts = try Assertion(assertion)
        try checkRPID(parts, in: assertion, rpIDHash)
        try checkCounter(parts)
        try checkSignature(parts, in: assertion, clientDataHash, key, digests)
        return VerifiedAssertion(parts.authenticatorData)
    }

    /// The assertion speaks for this app.
    static func checkRPID(
        _ assertion: Assertion, in bytes: Span<UInt8>, _ rpIDHash: Span<UInt8>
    ) throws(AssertionFault) {
        guard ConstantTime.areEqual(bytes.extracting(assertion.authenticatorData.rpIDHash), rpIDHash) else {
            throw .rpIDMismatch
        }
    }

    /// Counter 0 is the attestation's: a signature over such data is no assertion.
    static func checkCounter(_ assertion: Assertion) throws(AssertionFault) {
        guard assertion.authenticatorData.counter > 0 else { throw .counterZero }
    }

    /// The key signed the nonce SHA-256(authenticator data || client data hash).
    ///
    /// SHA-256 is applied twice: the nonce is the message of an ECDSA signature with SHA-256, not its digest.
    static func checkSignature(
        _ assertion: Assertion, in bytes: Span<UInt8>, _ clientDataHash: Span<UInt8>, _ key: P256VerificationKey,
        _ digests: LibraryContext
    ) throws(AssertionFault) {
        let digest: Digest256
        do throws(CryptographyError) {
            let nonce = try digests.sha256(of: bytes.extracting(assertion.authenticatorData.range), clientDataHash)
            digest = try digests.sha256(of: nonce.span)
        } catch {
            throw .checkFailed(error)
        }
        guard key.verify(digest: digest, signature: bytes.extracting(assertion.signature)) else {
            throw .signatureInvalid
        }
    }

    /// Makes all checks, whatever the others say, and tells how each ended. Made for people; takes what `verify` takes.
    public static func report(
        _ assertion: Span<UInt8>, clientDataHash: Span<UInt8>, key: P256VerificationKey, rpIDHash: Span<UInt8>,
        digests: LibraryContext
    ) -> AssertionReport {
        let parts: Assertion
        do throws(AssertionFault) { parts = try Assertion(assertion) } catch {
            let steps = AssertionFault.Step.allCases.map { step in
                AssertionReport.Entry(step: step, outcome: step == .form ? .refused(error) : .notReached)
            }
            return AssertionReport(steps: steps, data: nil)
        }
        var steps: [AssertionReport.Entry] = []
        for step in AssertionFault.Step.allCases {
            do throws(AssertionFault) {
                switch step {
                case .form: break
                case .rpID: try checkRPID(parts, in: assertion, rpIDHash)
                case .counter: try checkCounter(parts)
                case .signature: try checkSignature(parts, in: assertion, clientDataHash, key, digests)
                }
                steps.append(AssertionReport.Entry(step: step, outcome: .passed))
            } catch {
                steps.append(AssertionReport.Entry(step: step, outcome: .refused(error)))
            }
        }
        return AssertionReport(steps: steps, data: parts.authenticatorData)
    }
}

/// How every check of an assertion ended, for people.
public struct AssertionReport: Sendable {
    public struct Entry: Sendable {
        public let step: AssertionFault.Step
        public let outcome: StepOutcome<AssertionFault>
    }

    /// All steps, in the order of `AssertionFault.Step`.
    public let steps: [Entry]
    /// What the assertion says, verified or not. Ranges count from its beginning.
    public let data: AuthenticatorData?
}

/// What a verified assertion says. Only `AssertionVerifier` makes one.
///
/// The counter has not been judged: whether it was seen before is for the registry, whose answer must outlive a crash.
public struct VerifiedAssertion: Equatable, Sendable {
    /// At least 1. Gaps are normal: it counts what was signed, not what arrived.
    public let counter: UInt32
    /// What the app's system says about it; all absent up to iOS 26. Ranges count from the beginning of the assertion.
    public let extensions: AppExtensions

    init(_ data: AuthenticatorData) {
        counter = data.counter
        extensions = data.extensions
    }
}

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
