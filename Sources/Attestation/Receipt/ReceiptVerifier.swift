public import Cryptography
public import Encoding

/// The values to which a receipt must be bound.
public struct ReceiptExpectation: Sendable {
    public var appID: String
    /// The uncompressed point of the hardware key, 65 bytes.
    public var publicKey: [UInt8]
    /// The client data hash of the attestation that contained the receipt. Nil for an exchanged receipt.
    public var clientDataHash: [UInt8]?
    /// The maximum age in seconds. Nil: until expiry.
    public var maximumAge: Int64?
    /// The attestation's leaf certificate, which has `publicKey`. If field 3 is equal, it need not be parsed.
    var certificate: [UInt8]?

    public init(appID: String, publicKey: [UInt8], clientDataHash: [UInt8]? = nil, maximumAge: Int64? = nil) {
        self.appID = appID
        self.publicKey = publicKey
        self.clientDataHash = clientDataHash
        self.maximumAge = maximumAge
    }
}

/// Verification of receipts as in Apple's "Assessing fraud risk". Belongs to the thread of its library context.
public struct ReceiptVerifier {
    /// Length limit in bytes. Genuine receipts have about 4,000.
    public static let lengthLimit = 16 * 1024
    /// Tolerance for clocks that are ahead, in seconds.
    static let clockSkew: Int64 = 300

    let root: TrustedRoot
    let library: LibraryContext

    public init(root: TrustedRoot, _ library: LibraryContext) {
        self.root = root
        self.library = library
    }

    /// Performs the checks in the order of `ReceiptStep` until one fails.
    ///
    /// - Parameters:
    ///   - receipt: The receipt as received, CMS in BER.
    ///   - time: Seconds since 1970.
    public func verify(
        _ receipt: [UInt8], _ expectation: ReceiptExpectation, at time: Int64
    ) throws(ReceiptFault) -> Receipt {
        var examination = ReceiptExamination(receipt, expectation, self, time)
        for step in ReceiptStep.allCases {
            switch examination.outcome(of: step) {
            case .passed, .notDemanded: continue
            case .refused(let fault): throw fault
            // The steps before this one parsed its input and passed. A change that breaks this leads to a refusal.
            case .notReached: throw .checkFailed(step, CryptographyError(doing: "reach this step"))
            }
        }
        guard let fields = examination.fields else {
            throw .checkFailed(.form, CryptographyError(doing: "collect the verified values"))
        }
        return Receipt(fields)
    }

    /// Performs all checks, even after one fails, and returns their outcomes for people.
    public func report(_ receipt: [UInt8], _ expectation: ReceiptExpectation, at time: Int64) -> ReceiptReport {
        var examination = ReceiptExamination(receipt, expectation, self, time)
        let steps = ReceiptStep.allCases.map { step in
            ReceiptReport.Entry(step: step, outcome: examination.outcome(of: step))
        }
        let verified: Receipt?
        do throws(ReceiptFault) { verified = try verify(receipt, expectation, at: time) } catch { verified = nil }
        return ReceiptReport(
            steps: steps, verified: verified, fields: examination.fields, signer: examination.signer,
            coverage: examination.coverage)
    }
}

/// The outcomes of all checks of a receipt, for people.
public struct ReceiptReport: Sendable {
    public struct Entry: Sendable {
        public let step: ReceiptStep
        public let outcome: StepOutcome<ReceiptFault>
    }

    /// All steps, in the order of `ReceiptStep`.
    public let steps: [Entry]
    /// The verified receipt. Nil if it is refused.
    public let verified: Receipt?
    /// The parsed fields, verified or not.
    public let fields: ReceiptFields?
    /// The subject of the signer's certificate.
    public let signer: String?
    /// The data that the signature covers, if it is valid.
    public let coverage: SignedMessage.Coverage?
}

/// The checks of a receipt in the order of execution, the cheapest first.
public enum ReceiptStep: String, Sendable, CaseIterable {
    /// Size, CMS and fields.
    case form
    /// Field 2 is the app's id.
    case appID = "app_id"
    /// The key of the certificate in field 3 is the hardware key.
    case publicKey = "public_key"
    /// Field 4 is the client data hash of the attestation.
    case clientDataHash = "client_data_hash"
    /// Field 12 is not in the future and within the maximum age.
    case creation
    /// Field 21 has not passed.
    case expiration
    /// The signer's certificate has the mark for receipts.
    case signer
    /// The signer is not a certification authority, and the intermediate is one.
    case authority = "ca_flags"
    /// Signer and intermediate were valid when the receipt was made.
    case validity
    /// The signer's key made the signature.
    case signature
    /// Signatures from the signer over the intermediate to Apple's root, which was also valid.
    case chain

    /// A title for people.
    public var title: StaticString {
        switch self {
        case .form: "form of the receipt"
        case .appID: "app id"
        case .publicKey: "attested key"
        case .clientDataHash: "client data hash"
        case .creation: "creation time"
        case .expiration: "expiry"
        case .signer: "signer is for receipts"
        case .authority: "CA flags"
        case .validity: "validity of the certificates"
        case .signature: "signature"
        case .chain: "chain to the root"
        }
    }
}

/// The reason why a receipt is refused, with one case for each check.
public enum ReceiptFault: Error, Equatable, Sendable {
    /// More than `ReceiptVerifier.lengthLimit` bytes.
    case tooLong
    /// The receipt is not CMS signed data with one signer.
    case message(CryptographyError)
    case payload(DERFault)
    /// A field is missing or malformed.
    case field(Int)
    case appIDMismatch
    case certificateUnreadable
    case publicKeyMismatch
    /// The receipt did not come with an attestation, but from an exchange.
    case notOfAttestation
    case clientDataHashMismatch
    case fromTheFuture(InternetTime)
    case tooOld(InternetTime)
    case expired(InternetTime)
    /// The signer's certificate lacks the mark. Apple's root also issues to developers, so anyone with an account could
    /// otherwise sign receipts.
    case signerNotMarked
    case signerIsAuthority
    case intermediateMissing
    case intermediateIsNoAuthority
    case outsideValidity(CertificatePosition, Validity)
    case signatureInvalid
    case untrusted(PathRefusal)
    /// The check failed to run. This is the gateway's fault, but the receipt counts as refused.
    case checkFailed(ReceiptStep, CryptographyError)

    /// The check that failed.
    public var step: ReceiptStep {
        switch self {
        case .tooLong, .message, .payload, .field: .form
        case .appIDMismatch: .appID
        case .certificateUnreadable, .publicKeyMismatch: .publicKey
        case .notOfAttestation, .clientDataHashMismatch: .clientDataHash
        case .fromTheFuture, .tooOld: .creation
        case .expired: .expiration
        case .signerNotMarked: .signer
        case .signerIsAuthority, .intermediateMissing, .intermediateIsNoAuthority: .authority
        case .outsideValidity(.root, _), .untrusted: .chain
        case .outsideValidity: .validity
        case .signatureInvalid: .signature
        case .checkFailed(let step, _): step
        }
    }

    /// A description for the log and the developer of the client.
    public var reason: String {
        switch self {
        case .tooLong: "it is longer than 16 KiB"
        case .message(let error): error.description
        case .payload(let fault): "\(fault.reason)"
        case .field(let number): "field \(number) is missing or malformed"
        case .appIDMismatch: "it is for another app"
        case .certificateUnreadable: "the certificate in field 3 cannot be read"
        case .publicKeyMismatch: "it is for another key"
        case .notOfAttestation: "it is not from an attestation"
        case .clientDataHashMismatch: "its client data hash differs from the attestation's"
        case .fromTheFuture(let time): "it was created at \(time), in the future"
        case .tooOld(let time): "it was created at \(time), too long ago"
        case .expired(let time): "it expired at \(time)"
        case .signerNotMarked: "the signer's certificate is not for receipts"
        case .signerIsAuthority: "the signer's certificate is a certification authority"
        case .intermediateMissing: "the certificate of the signer's issuer is missing"
        case .intermediateIsNoAuthority: "the signer's issuer is not a certification authority"
        case .outsideValidity(let position, _):
            "the \(position.rawValue) certificate was not valid when the receipt was created"
        case .signatureInvalid: "the signature does not verify"
        case .untrusted(let refusal): "no chain to the root: \(refusal.reason)"
        case .checkFailed: "it could not be checked"
        }
    }
}
