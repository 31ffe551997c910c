public import Cryptography
public import Encoding

/// Verification of assertions as in Apple's "Validating apps that connect to your server".
///
/// Two of Apple's steps need state and are performed elsewhere. The registry checks the counter, and the issuer of the
/// client data checks the challenge.
public enum AssertionVerifier {
    /// Verifies an assertion in the order of `AssertionFault.Step`.
    ///
    /// - Parameters:
    ///   - assertion: The assertion in CBOR, as received.
    ///   - clientDataHash: The argument of `generateAssertion(_:clientDataHash:)`, 32 bytes in a request proof. Other
    ///     lengths are accepted here, because Apple's own samples use them.
    ///   - key: The hardware key of the device.
    ///   - rpIDHash: SHA-256 of the app id, 32 bytes.
    ///   - digests: Computes the digests. Belongs to the calling thread, as does `key`.
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

    /// Checks that the assertion is for this app.
    static func checkRPID(
        _ assertion: Assertion, in bytes: Span<UInt8>, _ rpIDHash: Span<UInt8>
    ) throws(AssertionFault) {
        guard ConstantTime.areEqual(bytes.extracting(assertion.authenticatorData.rpIDHash), rpIDHash) else {
            throw .rpIDMismatch
        }
    }

    /// Checks that the counter is not 0, which only attestations have.
    static func checkCounter(_ assertion: Assertion) throws(AssertionFault) {
        guard assertion.authenticatorData.counter > 0 else { throw .counterZero }
    }

    /// Checks that the key signed the nonce SHA-256(authenticator data || client data hash).
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

    /// Performs all checks, even after one fails, and returns their outcomes for people. Takes the parameters of
    /// `verify`.
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

/// The outcomes of all checks of an assertion, for people.
public struct AssertionReport: Sendable {
    public struct Entry: Sendable {
        public let step: AssertionFault.Step
        public let outcome: StepOutcome<AssertionFault>
    }

    /// All steps, in the order of `AssertionFault.Step`.
    public let steps: [Entry]
    /// The parsed authenticator data, verified or not. Ranges count from the assertion's beginning.
    public let data: AuthenticatorData?
}

/// The content of a verified assertion. Only `AssertionVerifier` creates one.
///
/// The counter was not checked. The registry does so, because its answer must survive a crash.
public struct VerifiedAssertion: Equatable, Sendable {
    /// The counter, at least 1. Gaps are normal: it counts signatures, not requests received.
    public let counter: UInt32
    /// The statements of the app's system about the app. All are absent up to iOS 26. Ranges count from the assertion's
    /// beginning.
    public let extensions: AppExtensions

    init(_ data: AuthenticatorData) {
        counter = data.counter
        extensions = data.extensions
    }
}

/// The reason why an assertion is refused, with one case for each check.
public enum AssertionFault: Error, Equatable, Sendable {
    /// More than `Assertion.lengthLimit` bytes.
    case tooLong
    /// The bytes are not one CBOR map of Apple's form.
    case malformed(CBORFault)
    /// The map has an entry that Apple's assertions do not have.
    case unknownEntry
    /// `signature` or `authenticatorData` is missing.
    case entryMissing
    case authenticatorData(AuthenticatorDataFault)
    /// The assertion is from or for another app.
    case rpIDMismatch
    /// The counter is 0, which only attestations have.
    case counterZero
    /// The signature is not this key's over this authenticator data and client data hash.
    case signatureInvalid
    /// The check failed to run. This is the gateway's fault, but the assertion counts as refused.
    case checkFailed(CryptographyError)
}

extension AssertionFault {
    /// The checks in the order of execution, the cheapest first.
    public enum Step: Sendable, CaseIterable {
        /// Size, CBOR, entries, authenticator data.
        case form
        /// RP id hash = SHA-256 of the app id (Apple's step 4).
        case rpID
        /// The counter is at least 1. The registry checks that it is above the last one (Apple's step 5).
        case counter
        /// The signature over SHA-256(authenticator data || client data hash) (Apple's steps 1 to 3).
        case signature
    }

    /// The check that failed.
    public var step: Step {
        switch self {
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData: .form
        case .rpIDMismatch: .rpID
        case .counterZero: .counter
        case .signatureInvalid, .checkFailed: .signature
        }
    }

    /// A description for the log and the developer of the client.
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
