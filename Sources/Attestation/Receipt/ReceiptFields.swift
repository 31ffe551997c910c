internal import Vocabulary

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

/// A time in the form of RFC 3339, as in receipts and command lines: `2026-04-21T18:13:12.153Z`.
public struct InternetTime: Equatable, Sendable {
    /// Milliseconds since 1970-01-01T00:00:00Z. Smaller fractions are truncated.
    public let milliseconds: Int64

    public init(seconds: Int64) {
        milliseconds = seconds * 1000
    }

    public var seconds: Int64 {
        // Times before 1970 are rounded down, too.
        (milliseconds - (milliseconds % 1000 + 1000) % 1000) / 1000
    }

    /// Parses a time. A leap second becomes the following second.
    ///
    /// - Parameter text: RFC 3339 section 5.6 with capital `T` and `Z`, or an offset instead of `Z`. Years are 1970 to
    ///   9999.
    public init?(_ text: Span<UInt8>) {
        var reader = Reader(text: text)
        guard let year = reader.number(4), reader.skip("-"), let month = reader.number(2), reader.skip("-"),
            let day = reader.number(2), reader.skip("T"), let hour = reader.number(2), reader.skip(":"),
            let minute = reader.number(2), reader.skip(":"), let second = reader.number(2),
            year >= 1970, (1...12).contains(month), (1...Self.days(in: month, of: year)).contains(day), hour < 24,
            minute < 60, second <= 60, let fraction = reader.fraction(), let offset = reader.offset(), reader.isAtEnd
        else { return nil }
        let days = GregorianDays.count(to: Int64(year), Int64(month), Int64(day))
        let seconds = days * 86_400 + Int64((hour * 60 + minute - offset) * 60 + second)
        milliseconds = seconds * 1000 + Int64(fraction)
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(bytes.span)
    }

    private static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 4, 6, 9, 11: 30
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        default: 31
        }
    }

    private struct Reader: ~Escapable {
        let text: Span<UInt8>
        var position = 0

        @_lifetime(copy text)
        init(text: Span<UInt8>) { self.text = text }

        var isAtEnd: Bool { position == text.count }

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard position < text.count, text[position] == UInt8(ascii: character) else { return false }
            position += 1
            return true
        }

        mutating func digit() -> Int? {
            guard position < text.count, (0x30...0x39).contains(text[position]) else { return nil }
            position += 1
            return Int(text[position - 1]) - 0x30
        }

        mutating func number(_ digits: Int) -> Int? {
            var value = 0
            for _ in 0..<digits {
                guard let digit = digit() else { return nil }
                value = value * 10 + digit
            }
            return value
        }

        /// Parses a fraction of up to nine digits and returns milliseconds.
        mutating func fraction() -> Int? {
            guard skip(".") else { return 0 }
            var milliseconds = 0
            var count = 0
            while count < 9, let digit = digit() {
                if count < 3 { milliseconds = milliseconds * 10 + digit }
                count += 1
            }
            guard count > 0 else { return nil }
            for _ in count..<max(count, 3) { milliseconds *= 10 }
            return milliseconds
        }

        /// Parses an offset and returns the minutes to subtract.
        mutating func offset() -> Int? {
            if skip("Z") { return 0 }
            let sign = skip("+") ? 1 : skip("-") ? -1 : 0
            guard sign != 0, let hours = number(2), skip(":"), let minutes = number(2), hours < 24, minutes < 60 else {
                return nil
            }
            return sign * (hours * 60 + minutes)
        }
    }
}

extension InternetTime: CustomStringConvertible {
    /// The time in UTC, without fractions of a second.
    public var description: String {
        let days = Int(seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400)
        let rest = Int(seconds) - days * 86_400
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return "\(year)-\(Self.pad(month))-\(Self.pad(day))T"
            + "\(Self.pad(rest / 3600)):\(Self.pad(rest / 60 % 60)):\(Self.pad(rest % 60))Z"
    }

    private static func pad(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
