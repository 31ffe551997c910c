public import Cryptography

/// What a receipt must have been made for.
public struct ReceiptExpectation: Sendable {
    public var appID: String
    /// The hardware key: the uncompressed point, 65 bytes.
    public var publicKey: [UInt8]
    /// The client data hash of the attestation the receipt came with. Nil for one that was exchanged.
    public var clientDataHash: [UInt8]?
    /// How many seconds ago it may have been made. Nil: until it expires.
    public var maximumAge: Int64?
    /// The leaf of the attestation, whose key is `publicKey`: where field 3 is the same, nobody reads it.
    var certificate: [UInt8]?

    public init(appID: String, publicKey: [UInt8], clientDataHash: [UInt8]? = nil, maximumAge: Int64? = nil) {
        self.appID = appID
        self.publicKey = publicKey
        self.clientDataHash = clientDataHash
        self.maximumAge = maximumAge
    }
}

/// Verifies receipts as Apple's "Assessing fraud risk" tells. Belongs to the thread of its library context.
public struct ReceiptVerifier {
    /// Most bytes of a receipt. Genuine ones have about 4 thousand.
    public static let lengthLimit = 16 * 1024
    /// How many seconds another clock may be ahead.
    static let clockSkew: Int64 = 300

    let root: TrustedRoot
    let library: LibraryContext

    public init(root: TrustedRoot, _ library: LibraryContext) {
        self.root = root
        self.library = library
    }

    /// Makes all checks in the order of `ReceiptStep`, up to the first that refuses.
    ///
    /// - Parameters:
    ///   - receipt: as it came, CMS in BER.
    ///   - time: seconds since 1970.
    public func verify(
        _ receipt: [UInt8], _ expectation: ReceiptExpectation, at time: Int64
    ) throws(ReceiptFault) -> Receipt {
        var examination = ReceiptExamination(receipt, expectation, self, time)
        for step in ReceiptStep.allCases {
            switch examination.outcome(of: step) {
            case .passed, .notDemanded: continue
            case .refused(let fault): throw fault
            // The steps before this one read its material and passed. A change that breaks this leads to a refusal.
            case .notReached: throw .checkFailed(step, CryptographyError(doing: "reach this step"))
            }
        }
        guard let fields = examination.fields else {
            throw .checkFailed(.form, CryptographyError(doing: "collect the verified values"))
        }
        return Receipt(fields)
    }

    /// Makes all checks, whatever the others say, and tells how each ended. Made for people.
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

/// How every check of a receipt ended, for people.
public struct ReceiptReport: Sendable {
    public struct Entry: Sendable {
        public let step: ReceiptStep
        public let outcome: StepOutcome<ReceiptFault>
    }

    /// All steps, in the order of `ReceiptStep`.
    public let steps: [Entry]
    /// Nil if the receipt is refused.
    public let verified: Receipt?
    /// What it says, verified or not.
    public let fields: ReceiptFields?
    /// The subject of the signer.
    public let signer: String?
    /// What the signature covers, if it is valid.
    public let coverage: SignedMessage.Coverage?
}

/// The checks of a receipt, in the order they are made: the cheap ones first.
public enum ReceiptStep: String, Sendable, CaseIterable {
    /// Size, CMS, fields.
    case form
    /// Field 2 is the app's id.
    case appID = "app_id"
    /// The key of the certificate in field 3 is the hardware key.
    case publicKey = "public_key"
    /// Field 4 is the client data hash of the attestation it came with.
    case clientDataHash = "client_data_hash"
    /// Field 12 is not in the future, and no longer ago than is admitted.
    case creation
    /// Field 21 has not passed.
    case expiration
    /// The signer's certificate is marked as one for receipts.
    case signer
    /// The signer is no certification authority, the intermediate is one.
    case authority = "ca_flags"
    /// Signer and intermediate were valid when the receipt was made.
    case validity
    /// The signer's key made the signature.
    case signature
    /// Signatures from the signer over the intermediate to Apple's root, which was valid as well.
    case chain

    /// For people.
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

/// Why a receipt is refused. One case for each thing that is checked.
public enum ReceiptFault: Error, Equatable, Sendable {
    /// More than `ReceiptVerifier.lengthLimit` bytes.
    case tooLong
    /// Not CMS signed data with one signer.
    case message(CryptographyError)
    case payload(DERFault)
    /// A field is missing, or of another form.
    case field(Int)
    case appIDMismatch
    case certificateUnreadable
    case publicKeyMismatch
    /// The receipt came with no attestation, but with an exchange.
    case notOfAttestation
    case clientDataHashMismatch
    case fromTheFuture(InternetTime)
    case tooOld(InternetTime)
    case expired(InternetTime)
    /// Apple's root signs for developers as well: without this mark anybody with an account could sign receipts.
    case signerNotMarked
    case signerIsAuthority
    case intermediateMissing
    case intermediateIsNoAuthority
    case outsideValidity(CertificatePosition, Validity)
    case signatureInvalid
    case untrusted(PathRefusal)
    /// The check could not be made. Our fault; the receipt counts as refused.
    case checkFailed(ReceiptStep, CryptographyError)

    /// The check that refused.
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

    /// For the log, and for the developer of the client.
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
