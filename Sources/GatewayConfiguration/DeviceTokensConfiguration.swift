/// The device tokens that routes require, all of one issuer.
public struct DeviceTokensConfiguration: Equatable, ConfigurationSection {
    @Setting(required: TokenIssuerName.kind, "The issuer of the tokens: their `iss`.")
    public var issuer: String
    @Setting(key: "jwks", required: .file("a readable JSON file"), "The JWK Set with the issuer's public keys.")
    public var keysPath: String
    @Setting(.choice, default: "x5t", "The claim by which a token is for the client's certificate.")
    public var binding: Binding
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(2_592_000)), unit: "since it was issued", default: "1h",
        "The maximum age of a token.")
    public var maximumAge: Duration
    @Setting(.choice, default: "strip", "Whether services receive the token.")
    public var header: Header

    static let section = Section("device_tokens", of: Self.self)

    public enum Binding: String, CaseIterable, Sendable {
        /// `x5t#S256` in `cnf`, the certificate's SHA-256.
        case x5t
        /// `sub`, the SHA-256 of the key's point.
        case sub
    }

    public enum Header: String, CaseIterable, Sendable {
        case strip
        case forward
    }
}

/// The issuer of device tokens.
public struct DeviceTokenIssuerConfiguration: Equatable, ConfigurationSection {
    @Setting(required: TokenIssuerName.kind, "The `iss` of the tokens.")
    public var issuer: String
    @Setting(
        key: "key", required: .keyFile("a readable PEM file"), "The private key that signs the tokens, on P-256.")
    public var keyPath: String
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(86_400)), unit: "since it was issued", default: "1h",
        "The lifetime of a token.")
    public var life: Duration
    @Setting(
        .choice, default: "false", "Whether the answer to a key binding has a token, as that to `/attestation` has.")
    public var atKeyBinding: Switch

    static let section = Section("enrolment.device_tokens", of: Self.self)
}

/// The `iss` of device tokens, which need not be a URL.
private enum TokenIssuerName {
    static var kind: Kind<String> {
        .text("1 to 255 printable characters", matching: "^[!-~]([ -~]{0,253}[!-~])?$") { text throws(InvalidValue) in
            let bytes = Array(text.utf8)
            guard (1...255).contains(bytes.count), bytes.allSatisfy({ (0x20...0x7e).contains($0) }),
                bytes.first != 0x20, bytes.last != 0x20
            else { throw InvalidValue("\(Printable.quoted(text)) is not the name of an issuer") }
            return text
        }
    }
}

/// Rules between device tokens and the rest of the conf file.
enum DeviceTokenReferences {
    /// Refuses routes that require tokens of no issuer, or of clients without a certificate, and another rule for the field of tokens.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(_ root: Item, _ reading: Reading) {
        for route in root["routes"]?.elements ?? [] where route["require"]?.text == "nothing" {
            guard let item = route["device_token"] else { continue }
            reading.refuse(
                item.place, "`device_token` has no certificate to be for with `require: nothing`",
                expected: "`require: certificate` or more, or no `device_token`")
        }
        guard root["device_tokens"] == nil else {
            for entry in root["forward_headers"]?.elements ?? [] where entry.text?.lowercased() == "x-device-token" {
                reading.refuse(
                    entry.place, "\(entry.summary) is the field of `device_tokens`",
                    expected: "`header: forward` in `device_tokens`")
            }
            return
        }
        for item in root["routes"]?.elements.compactMap({ $0["device_token"] }) ?? [] {
            reading.refuse(
                item.place, "`device_token` needs the section `device_tokens`, which names the issuer",
                expected: "a section `device_tokens`, or no `device_token`")
        }
    }
}
