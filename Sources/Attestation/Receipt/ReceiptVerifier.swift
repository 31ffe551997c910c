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
