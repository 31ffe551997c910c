internal import Encoding

/// What Google says in a token of the Play Integrity API ("Integrity verdicts"). Absent members were not evaluated.
public struct IntegrityPayload: Equatable, Sendable {
    /// The package that requested the token.
    public let requestPackage: String
    /// What the app bound the token to: `nonce` or `requestHash`, as text.
    public let nonce: String
    /// The time of the request, in milliseconds since 1970.
    public let milliseconds: Int64
    public let recognition: String?
    public let package: String?
    /// SHA-256 of the certificates that signed the app.
    public let certificates: [[UInt8]]
    public let version: UInt64?
    public let devices: [String]
    /// The system's API level. Nil if it is not requested.
    public let sdkVersion: Int64?
    public let licensing: String?

    /// The maximum of verdicts and of certificates.
    static let listLimit = 16

    /// Parses the payload. Numbers that Google sends as text are accepted only as text.
    init(_ payload: JSONObject) throws(IntegrityFault) {
        let request = try Self.section("requestDetails", in: payload)
        guard let request else { throw .payload("requestDetails") }
        requestPackage = try Self.required("requestPackageName", in: request)
        nonce = try Self.nonce(request)
        let milliseconds = try Self.required("timestampMillis", in: request)
        guard let time = Self.number(milliseconds).flatMap({ Int64(exactly: $0) }) else {
            throw .payload("timestampMillis")
        }
        self.milliseconds = time
        let app = try Self.section("appIntegrity", in: payload)
        recognition = try app.flatMap { app throws(IntegrityFault) in try Self.text("appRecognitionVerdict", in: app) }
        package = try app.flatMap { app throws(IntegrityFault) in try Self.text("packageName", in: app) }
        certificates = try Self.certificates(app)
        let version = try app.flatMap { app throws(IntegrityFault) in try Self.text("versionCode", in: app) }
        self.version = version.flatMap(Self.number)
        guard version == nil || self.version != nil else { throw .payload("versionCode") }
        let device = try Self.section("deviceIntegrity", in: payload)
        devices =
            try device.map { device throws(IntegrityFault) in
                try Self.texts("deviceRecognitionVerdict", in: device)
            } ?? []
        let attributes = try device.flatMap { device throws(IntegrityFault) in
            try Self.section("deviceAttributes", in: device)
        }
        sdkVersion = attributes?["sdkVersion"]?.integer
        let account = try Self.section("accountDetails", in: payload)
        licensing = try account.flatMap { account throws(IntegrityFault) in
            try Self.text("appLicensingVerdict", in: account)
        }
    }

    private static func nonce(_ request: JSONObject) throws(IntegrityFault) -> String {
        let classic = try text("nonce", in: request)
        let standard = try text("requestHash", in: request)
        // A token has one of them, by the kind of request.
        guard (classic == nil) != (standard == nil), let nonce = classic ?? standard else { throw .payload("nonce") }
        return nonce
    }

    private static func certificates(_ app: JSONObject?) throws(IntegrityFault) -> [[UInt8]] {
        guard let app else { return [] }
        var certificates: [[UInt8]] = []
        for text in try texts("certificateSha256Digest", in: app) {
            guard let digest = decode(text), digest.count == 32 else { throw .payload("certificateSha256Digest") }
            certificates.append(digest)
        }
        return certificates
    }

    /// Decodes base64url, which Google writes with and without padding.
    static func decode(_ text: String) -> [UInt8]? {
        let digits = Array(text.utf8.prefix { $0 != UInt8(ascii: "=") })
        guard text.utf8.count - digits.count <= 2,
            text.utf8.dropFirst(digits.count).allSatisfy({ $0 == UInt8(ascii: "=") })
        else { return nil }
        return Base64URL.decode(digits.span)
    }

    // MARK: - Members

    private static func section(_ name: StaticString, in object: JSONObject) throws(IntegrityFault) -> JSONObject? {
        guard let value = object["\(name)"] else { return nil }
        guard let section = value.object else { throw .payload(name) }
        return section
    }

    private static func text(_ name: StaticString, in object: JSONObject) throws(IntegrityFault) -> String? {
        guard let value = object["\(name)"] else { return nil }
        guard let text = value.text, text.count <= 512 else { throw .payload(name) }
        return String(decoding: text, as: UTF8.self)
    }

    private static func required(_ name: StaticString, in object: JSONObject) throws(IntegrityFault) -> String {
        guard let text = try text(name, in: object) else { throw .payload(name) }
        return text
    }

    private static func texts(_ name: StaticString, in object: JSONObject) throws(IntegrityFault) -> [String] {
        guard let value = object["\(name)"] else { return [] }
        guard case .array(let elements) = value, elements.count <= listLimit else { throw .payload(name) }
        var texts: [String] = []
        for element in elements {
            guard let text = element.text, text.count <= 512 else { throw .payload(name) }
            texts.append(String(decoding: text, as: UTF8.self))
        }
        return texts
    }

    /// Parses decimal digits without sign or leading zeros.
    private static func number(_ text: String) -> UInt64? {
        guard let number = UInt64(text), "\(number)" == text else { return nil }
        return number
    }
}
