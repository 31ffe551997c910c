internal import Cryptography
internal import Encoding

/// The state of one receipt's verification, like `AttestationExamination`.
struct ReceiptExamination {
    private let bytes: [UInt8]
    private let expectation: ReceiptExpectation
    private let verifier: ReceiptVerifier
    private let time: Int64

    private var message: SignedMessage?
    private var intermediate: Certificate?
    private(set) var fields: ReceiptFields?
    private(set) var coverage: SignedMessage.Coverage?

    /// 1.2.840.113635.100.12.15: the extension that marks signers of receipts.
    private static let mark = "1.2.840.113635.100.12.15"

    private typealias Outcome = StepOutcome<ReceiptFault>

    init(_ bytes: [UInt8], _ expectation: ReceiptExpectation, _ verifier: ReceiptVerifier, _ time: Int64) {
        self.bytes = bytes
        self.expectation = expectation
        self.verifier = verifier
        self.time = time
    }

    var signer: String? { message?.signer.subject }

    mutating func outcome(of step: ReceiptStep) -> StepOutcome<ReceiptFault> {
        do throws(ReceiptFault) { return try perform(step) } catch { return .refused(error) }
    }

    private mutating func perform(_ step: ReceiptStep) throws(ReceiptFault) -> Outcome {
        switch step {
        case .form: try checkForm()
        case .appID: try checkAppID()
        case .publicKey: try checkPublicKey()
        case .clientDataHash: try checkClientDataHash()
        case .creation: try checkCreation()
        case .expiration: try checkExpiration()
        case .signer: try checkSigner()
        case .authority: try checkAuthority()
        case .validity: try checkValidity()
        case .signature: try checkSignature()
        case .chain: try checkChain()
        }
    }

    private mutating func checkForm() throws(ReceiptFault) -> Outcome {
        guard bytes.count <= ReceiptVerifier.lengthLimit else { throw .tooLong }
        let message: SignedMessage
        do throws(CryptographyError) {
            message = try SignedMessage(ber: bytes.span, verifier.library)
        } catch {
            throw .message(error)
        }
        self.message = message
        intermediate = message.certificates.first { $0 !== message.signer && $0.isNamedIssuer(of: message.signer) }
        let payload = message.content
        fields = try ReceiptFields(payload.span)
        return .passed
    }

    private func checkAppID() throws(ReceiptFault) -> Outcome {
        guard let fields else { return .notReached }
        // Byte by byte, because == of String accepts canonically equivalent texts.
        guard fields.appID.utf8.elementsEqual(expectation.appID.utf8) else { throw .appIDMismatch }
        return .passed
    }

    private func checkPublicKey() throws(ReceiptFault) -> Outcome {
        guard let fields else { return .notReached }
        // Decoding a certificate costs more than all other checks here.
        if let certificate = expectation.certificate, certificate == fields.certificate { return .passed }
        let certificate: Certificate
        do throws(CryptographyError) {
            certificate = try Certificate(der: fields.certificate.span, verifier.library)
        } catch {
            throw .certificateUnreadable
        }
        guard let key = certificate.publicKey, key.isP256, key.uncompressedPoint == expectation.publicKey else {
            throw .publicKeyMismatch
        }
        return .passed
    }

    private func checkClientDataHash() throws(ReceiptFault) -> Outcome {
        guard let fields else { return .notReached }
        guard let expected = expectation.clientDataHash else { return .notDemanded(nil) }
        guard fields.kind == .attestation else { throw .notOfAttestation }
        guard fields.clientDataHash == expected else { throw .clientDataHashMismatch }
        return .passed
    }

    private func checkCreation() throws(ReceiptFault) -> Outcome {
        guard let fields else { return .notReached }
        let creation = fields.creation.seconds
        guard creation <= time + ReceiptVerifier.clockSkew else { throw .fromTheFuture(fields.creation) }
        if let maximumAge = expectation.maximumAge {
            guard time - creation <= maximumAge else { throw .tooOld(fields.creation) }
        }
        return .passed
    }

    private func checkExpiration() throws(ReceiptFault) -> Outcome {
        guard let fields else { return .notReached }
        guard time <= fields.expiration.seconds else { throw .expired(fields.expiration) }
        return .passed
    }

    private func checkSigner() throws(ReceiptFault) -> Outcome {
        guard let message else { return .notReached }
        guard message.signer.extensionValues(Self.mark).count == 1 else { throw .signerNotMarked }
        return .passed
    }

    private func checkAuthority() throws(ReceiptFault) -> Outcome {
        guard let message else { return .notReached }
        guard !message.signer.mayBeAuthority else { throw .signerIsAuthority }
        guard let intermediate else { throw .intermediateMissing }
        guard intermediate.isAuthority else { throw .intermediateIsNoAuthority }
        return .passed
    }

    /// Checks the certificates at the receipt's creation, because a receipt may outlive its signer's certificate.
    private func checkValidity() throws(ReceiptFault) -> Outcome {
        guard let message, let intermediate, let fields else { return .notReached }
        try check(message.signer, .leaf, at: fields.creation)
        try check(intermediate, .intermediate, at: fields.creation)
        return .passed
    }

    private func check(
        _ certificate: Certificate, _ position: CertificatePosition, at time: InternetTime
    ) throws(ReceiptFault) {
        let validity = Validity(certificate)
        guard validity.includes(time.seconds) else { throw .outsideValidity(position, validity) }
    }

    /// Checks the signature.
    ///
    /// A signature over signed attributes cannot pass as one over the payload. Attributes begin with an object
    /// identifier, while the fields, which were parsed, begin with an integer.
    private mutating func checkSignature() throws(ReceiptFault) -> Outcome {
        guard let message, fields != nil else { return .notReached }
        do throws(CryptographyError) {
            coverage = try message.verifySignature()
        } catch {
            throw .checkFailed(.signature, error)
        }
        guard coverage != nil else { throw .signatureInvalid }
        return .passed
    }

    private func checkChain() throws(ReceiptFault) -> Outcome {
        guard let message, let fields, let intermediate, intermediate.isAuthority else { return .notReached }
        let refusal: PathRefusal?
        do throws(CryptographyError) {
            refusal = try verifier.root.refusal(of: message.signer, over: intermediate)
        } catch {
            throw .checkFailed(.chain, error)
        }
        if let refusal { throw .untrusted(refusal) }
        try check(verifier.root.certificate, .root, at: fields.creation)
        return .passed
    }
}
