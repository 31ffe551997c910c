public import Cryptography
public import Encoding

/// A certificate's serial number, as Google's list may write it.
public struct AttestationSerial: Hashable, Sendable {
    /// In lower-case hexadecimal, without leading zeros.
    public let hexadecimal: String
    public let decimal: String

    public init(_ certificate: Certificate) {
        let digits = certificate.serial.lowercased().drop { $0 == "0" }
        hexadecimal = digits.isEmpty ? "0" : String(digits)
        decimal = certificate.decimalSerial
    }

    /// Whether the number has at most 20 octets and no sign (RFC 5280 section 4.1.2.2), as the registry stores it.
    var isStorable: Bool { Self(hexadecimal: hexadecimal) != nil }

    /// Creates a serial number from its stored form.
    ///
    /// - Parameter hexadecimal: 1 to 40 digits in lower case, without leading zeros.
    /// - Returns: nil for other texts.
    public init?(hexadecimal: String) {
        guard (1...40).contains(hexadecimal.utf8.count) else { return nil }
        // The least significant digit is first.
        var digits: [UInt8] = [0]
        for character in hexadecimal.utf8 {
            guard var carry = Hexadecimal.value(lowercase: character) else { return nil }
            for index in digits.indices {
                let value = digits[index] * 16 + carry
                digits[index] = value % 10
                carry = value / 10
            }
            while carry > 0 {
                digits.append(carry % 10)
                carry /= 10
            }
        }
        self.hexadecimal = hexadecimal
        decimal = digits.reversed().map { "\($0)" }.joined()
    }
}

/// Google's list of attestation keys that are revoked or suspended: the JSON object of
/// `https://android.googleapis.com/attestation/status`.
public struct AttestationStatusList: Equatable, Sendable {
    /// The serials as the list writes them, in lower case without leading zeros: hexadecimal or decimal.
    public let serials: Set<String>

    public init(serials: Set<String>) { self.serials = serials }

    /// The maximum of the text: some 20 times the list of 2026.
    public static let longest = 4 << 20
    /// The maximum of entries.
    static let entryLimit = 65_536

    /// Parses the list.
    ///
    /// - Throws: if the text is not the list's JSON, or an entry has no status.
    public init(_ text: [UInt8]) throws(StatusListFault) {
        let object: JSONObject
        do throws(JSONFault) {
            object = try JSONReader.object(in: text, longest: Self.longest, most: Self.entryLimit)
        } catch {
            throw .malformed(error)
        }
        guard let entries = object["entries"]?.object else { throw .entriesMissing }
        var serials: Set<String> = []
        for entry in entries.members {
            guard entry.value.object?["status"]?.text?.isEmpty == false else { throw .statusMissing }
            let digits = String(decoding: entry.name, as: UTF8.self).lowercased().drop { $0 == "0" }
            serials.insert(digits.isEmpty ? "0" : String(digits))
        }
        self.serials = serials
    }

    /// Returns whether a serial has any status: none that exists is good.
    public func isRevoked(_ serial: AttestationSerial) -> Bool {
        serials.contains(serial.hexadecimal) || serials.contains(serial.decimal)
    }
}

/// The reason why a text is no status list.
public enum StatusListFault: Error, Equatable, Sendable {
    case malformed(JSONFault)
    case entriesMissing
    case statusMissing
}
