public import Encoding

/// The parsed payload of a receipt, regardless of its signer.
///
/// It is a SET of SEQUENCE { type INTEGER, version INTEGER, value OCTET STRING } in DER (Apple's "Assessing fraud
/// risk"). Unknown types are skipped, because Apple adds some occasionally. All values are text, except for certificate
/// and hash.
public struct ReceiptFields: Equatable, Sendable {
    public enum Kind: String, Sendable {
        /// The receipt came with an attestation.
        case attestation = "ATTEST"
        /// The receipt was exchanged for an earlier one and has a risk metric.
        case refreshed = "RECEIPT"
    }

    /// Field 2: team id, full stop, bundle id.
    public let appID: String
    /// Field 3: the leaf certificate of the attestation in DER.
    public let certificate: [UInt8]
    /// Field 4: the client data hash of the attestation. Apple corrupts it in refreshed receipts.
    public let clientDataHash: [UInt8]
    /// Field 6: the kind of receipt.
    public let kind: Kind
    /// Field 7, undocumented: `sandbox` or `production`.
    public let environment: String?
    /// Field 12: the time of creation.
    public let creation: InternetTime
    /// Field 17: the approximate number of recently attested keys of the device. Nil in receipts of attestations.
    public let riskMetric: UInt32?
    /// Field 19: the time from which Apple exchanges the receipt for a newer metric. It is not the beginning of
    /// validity.
    public let notBefore: InternetTime?
    /// Field 21: the time after which Apple no longer exchanges the receipt.
    public let expiration: InternetTime

    private static let fieldLimit = 64

    public init(_ payload: Span<UInt8>) throws(ReceiptFault) {
        var values: [Int: Range<Int>] = [:]
        do throws(DERFault) {
            var outer = DERReader(payload)
            var fields = DERReader(payload, in: try outer.read(.set))
            try outer.finish()
            var count = 0
            while !fields.isAtEnd {
                var field = DERReader(payload, in: try fields.read(.sequence))
                let type = try field.readSmallInteger()
                _ = try field.readSmallInteger()
                let value = try field.read(.octetString)
                try field.finish()
                count += 1
                guard values[type] == nil, count <= Self.fieldLimit else { throw .unexpectedValue }
                values[type] = value
            }
        } catch {
            throw .payload(error)
        }
        func text(_ type: Int) throws(ReceiptFault) -> String? {
            guard let range = values[type] else { return nil }
            guard range.count <= 256, let utf8 = try? UTF8Span(validating: payload.extracting(range)) else {
                throw .field(type)
            }
            return String(copying: utf8)
        }
        func time(_ type: Int) throws(ReceiptFault) -> InternetTime? {
            guard let range = values[type] else { return nil }
            guard let time = InternetTime(payload.extracting(range)) else { throw .field(type) }
            return time
        }
        func bytes(_ type: Int) throws(ReceiptFault) -> [UInt8] {
            guard let range = values[type] else { throw .field(type) }
            let span = payload.extracting(range)
            return span.indices.map { span[$0] }
        }
        guard let appID = try text(2) else { throw .field(2) }
        guard let kind = try text(6).flatMap(Kind.init) else { throw .field(6) }
        guard let creation = try time(12) else { throw .field(12) }
        guard let expiration = try time(21) else { throw .field(21) }
        let metric = try text(17)
        riskMetric = metric.flatMap(UInt32.init)
        guard metric == nil || riskMetric != nil else { throw .field(17) }
        self.appID = appID
        self.kind = kind
        self.creation = creation
        self.expiration = expiration
        certificate = try bytes(3)
        clientDataHash = try bytes(4)
        environment = try text(7)
        notBefore = try time(19)
    }
}

/// A verified receipt. Only `ReceiptVerifier` creates one.
public struct Receipt: Equatable, Sendable {
    public let fields: ReceiptFields

    init(_ fields: ReceiptFields) {
        self.fields = fields
    }
}
