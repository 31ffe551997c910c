internal import Bytes
internal import Encoding

/// The forms in which proxies forward the certificate of a client whose TLS they terminate.
package enum ForwardedCertificateFormat: Sendable {
    /// RFC 9440 section 2: `:<base64 DER>:`, and the certificates above it in a second field.
    case rfc9440
    /// PEM, percent-encoded: nginx, and AWS's Application Load Balancer, which leaves `+`, `/` and `=` as they are.
    case pemURLEncoded
    /// Base64 of the DER encoding: HAProxy and Caddy.
    case derBase64
    /// Envoy's `x-forwarded-client-cert`, with exactly one element.
    case xfcc
    /// Base64 of the DER encoding, certificates above it after commas: Traefik, before version 2.9 percent-encoded.
    case traefik
}

/// The certificates in a field, the leaf first. They are not verified.
package enum ForwardedCertificates: Equatable {
    /// At least one.
    case der([[UInt8]])
    case pem([UInt8])

    /// The maximum number of certificates. More are never a path (`ClientTrust`).
    private static let most = 5

    /// Reads a field.
    ///
    /// - Parameters:
    ///   - value: The value of the field, at least one byte.
    ///   - chain: The value of the field with the certificates above it. Empty if there is none.
    /// - Returns: Nil unless it is exactly one client's certificate in that form.
    package init?(_ value: Span<UInt8>, chain: Span<UInt8>, _ format: ForwardedCertificateFormat) {
        switch format {
        case .rfc9440:
            guard let leaf = Self.item(value), let above = Self.items(chain) else { return nil }
            self = .der([leaf] + above)
        case .pemURLEncoded:
            guard let pem = Self.percentDecoded(value), Self.isChain(pem.span) else { return nil }
            self = .pem(pem)
        case .derBase64:
            guard let leaf = Self.base64(value) else { return nil }
            self = .der([leaf])
        case .xfcc:
            guard let pem = Self.element(value) else { return nil }
            self = .pem(pem)
        case .traefik:
            guard let certificates = Self.list(value) else { return nil }
            self = .der(certificates)
        }
    }

    private static func base64(_ text: Span<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        guard text.count > 0, Base64.decode(text, appendingTo: &bytes) else { return nil }
        return bytes
    }

    /// Reads a byte sequence of RFC 8941 section 3.3.5, without parameters.
    private static func item(_ text: Span<UInt8>) -> [UInt8]? {
        let colon = UInt8(ascii: ":")
        guard text.count > 2, text[0] == colon, text[text.count - 1] == colon else { return nil }
        return base64(text.extracting(1..<(text.count - 1)))
    }

    /// Reads a list of byte sequences.
    private static func items(_ text: Span<UInt8>) -> [[UInt8]]? {
        split(text) { part in item(part.extracting(part.unpadded)) }
    }

    private static func list(_ value: Span<UInt8>) -> [[UInt8]]? {
        for place in value.indices where value[place] == UInt8(ascii: "%") {
            return percentDecoded(value).flatMap { split($0.span, reading: base64) }
        }
        return split(value, reading: base64)
    }

    /// Reads the parts between commas. Empty for an empty text.
    private static func split(_ text: Span<UInt8>, reading read: (Span<UInt8>) -> [UInt8]?) -> [[UInt8]]? {
        var parts: [[UInt8]] = []
        var start = 0
        for place in 0...text.count where text.count > 0 {
            guard place == text.count || text[place] == UInt8(ascii: ",") else { continue }
            guard parts.count < most, let part = read(text.extracting(start..<place)) else { return nil }
            parts.append(part)
            start = place + 1
        }
        return parts
    }

    /// Decodes percent-encoding. A `+` is itself: base64 has it, and no space.
    private static func percentDecoded(_ text: Span<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var place = 0
        while place < text.count {
            guard text[place] == UInt8(ascii: "%") else {
                bytes.append(text[place])
                place += 1
                continue
            }
            guard place + 2 < text.count, let high = Hexadecimal.value(text[place + 1]),
                let low = Hexadecimal.value(text[place + 2])
            else { return nil }
            bytes.append(high << 4 | low)
            place += 3
        }
        return bytes
    }

    private static let begin = Array("-----BEGIN CERTIFICATE-----".utf8)
    private static let end = Array("-----END CERTIFICATE-----".utf8)

    /// Returns whether a PEM text has certificates and nothing else: no text between them, and no private key.
    ///
    /// - Parameter most: The maximum number of certificates.
    private static func isChain(_ text: Span<UInt8>, most: Int = most) -> Bool {
        var (place, count) = (0, 0)
        while true {
            while place < text.count, isSpace(text[place]) { place += 1 }
            guard place < text.count else { return count > 0 }
            guard count < most, skip(begin, in: text, from: &place) else { return false }
            while place < text.count, isSpace(text[place]) || isDigit(text[place]) { place += 1 }
            guard skip(end, in: text, from: &place) else { return false }
            count += 1
        }
    }

    /// Moves behind a label.
    ///
    /// - Returns: Whether it is there.
    private static func skip(_ label: [UInt8], in text: Span<UInt8>, from place: inout Int) -> Bool {
        let next = place + label.count
        guard next <= text.count, text.extracting(place..<next).isEqual(to: label.span) else { return false }
        place = next
        return true
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0d).contains(byte) }

    /// Returns whether the byte is a digit or the padding of base64.
    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
            true
        default: false
        }
    }

    /// Reads an element of `x-forwarded-client-cert`: `Key=value;Key="quoted value"`.
    ///
    /// - Returns: The PEM texts of `Cert` and, if there is one, `Chain`. Nil if there is a second element: it would be
    ///   another client's certificate.
    private static func element(_ value: Span<UInt8>) -> [UInt8]? {
        var (certificate, chain): ([UInt8]?, [UInt8]?) = (nil, nil)
        var place = 0
        while place < value.count {
            var key: [UInt8] = []
            while place < value.count, value[place] != UInt8(ascii: "=") {
                key.append(value[place] | 0x20)
                place += 1
            }
            place += 1
            guard let text = text(in: value, from: &place) else { return nil }
            switch String(decoding: key, as: UTF8.self) {
            case "cert":
                guard certificate == nil else { return nil }
                certificate = percentDecoded(text.span)
                guard let certificate, isChain(certificate.span, most: 1) else { return nil }
            case "chain":
                guard chain == nil else { return nil }
                chain = percentDecoded(text.span)
                guard let chain, isChain(chain.span) else { return nil }
            default: break
            }
            guard place < value.count else { break }
            guard value[place] == UInt8(ascii: ";") else { return nil }
            place += 1
        }
        // Where Envoy sends the chain, it begins with the certificate itself.
        return certificate.map { $0 + [UInt8(ascii: "\n")] + (chain ?? []) }
    }

    /// Reads the value of a pair, and moves to the byte behind it.
    private static func text(in value: Span<UInt8>, from place: inout Int) -> [UInt8]? {
        var text: [UInt8] = []
        guard place < value.count, value[place] == UInt8(ascii: "\"") else {
            while place < value.count, value[place] != UInt8(ascii: ";"), value[place] != UInt8(ascii: ",") {
                text.append(value[place])
                place += 1
            }
            return text
        }
        place += 1
        while place < value.count, value[place] != UInt8(ascii: "\"") {
            if value[place] == UInt8(ascii: "\\") { place += 1 }
            guard place < value.count else { return nil }
            text.append(value[place])
            place += 1
        }
        guard place < value.count else { return nil }
        place += 1
        return text
    }
}
