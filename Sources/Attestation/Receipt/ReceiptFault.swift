public import Cryptography

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
