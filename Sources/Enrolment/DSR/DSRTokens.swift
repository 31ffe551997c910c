internal import Attestation
internal import Encoding
internal import Registry
internal import Vocabulary

/// A nonce in the form of the reference system: base64 of 64 bytes. They are the bytes of an `IssuedNonce`, and zeros.
struct DSRNonce: Equatable {
    private static let length = 64

    let nonce: IssuedNonce
    /// The decoded bytes, from which the client derives others.
    let bytes: [UInt8]

    init(_ nonce: IssuedNonce) {
        self.nonce = nonce
        bytes = nonce.bytes + [UInt8](repeating: 0, count: Self.length - nonce.bytes.count)
    }

    /// Parses a nonce as a client returns it.
    ///
    /// - Returns: nil for another form.
    init?(_ text: [UInt8]) {
        guard let bytes = Base64.decode(text), bytes.count == Self.length else { return nil }
        let (content, padding) = (bytes.prefix(EnrolmentNonces.length), bytes.dropFirst(EnrolmentNonces.length))
        guard padding.allSatisfy({ $0 == 0 }), let nonce = IssuedNonce(Array(Base64URL.encode(Array(content)).utf8))
        else { return nil }
        self.nonce = nonce
        self.bytes = bytes
    }

    var text: String { Base64.encode(bytes) }
}

/// The claims of both tokens of the reference system. Members that it does not know are ignored, as there.
struct DSRClaims {
    private static let issuerPrefix = Array("TrustSDK_".utf8)
    /// The tolerance for `iat` in the future, in seconds.
    private static let clockTolerance: Int64 = 60

    /// The id of the key of the client certificate.
    let subject: KeyID
    let nonce: DSRNonce
    let isAndroid: Bool
    private let members: JSONObject

    /// Parses and compares what needs no key.
    ///
    /// - Parameters:
    ///   - life: The age in seconds at which a token expires.
    ///   - now: The time in seconds since 1970.
    init(_ token: CompactJWS, life: Int64, now: Int64) throws(EnrolmentFault) {
        members = token.payload
        guard let issuer = members["iss"]?.text, let subject = members["sub"]?.text,
            let issuedAt = members["iat"]?.integer, let type = members["type"]?.text,
            let nonce = members["nonce"]?.text
        else { throw .dsr(.tokenSyntax) }
        guard issuer.starts(with: Self.issuerPrefix) else { throw .dsr(.issuer) }
        let version = issuer.dropFirst(Self.issuerPrefix.count)
        guard (1...16).contains(version.count), version.allSatisfy(Self.isOfVersion) else { throw .dsr(.issuerVersion) }
        guard NumericDate.range.contains(issuedAt), issuedAt <= now + Self.clockTolerance, now - issuedAt < life else {
            throw .dsr(.issuedAt)
        }
        switch String(decoding: type, as: UTF8.self) {
        case "ANDROID", "Android", "android": isAndroid = true
        case "IOS", "ios", "iOS": isAndroid = false
        default: throw .dsr(.deviceType)
        }
        guard let digest = Base64.decode(subject), let keyID = KeyID(digest: digest.span) else { throw .dsr(.subject) }
        self.subject = keyID
        guard let nonce = DSRNonce(nonce) else { throw .nonceRefused }
        self.nonce = nonce
    }

    private static func isOfVersion(_ character: UInt8) -> Bool {
        character == UInt8(ascii: ".") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(character)
    }

    func text(_ name: String) throws(EnrolmentFault) -> [UInt8] {
        guard let text = members[name]?.text else { throw .dsr(.tokenSyntax) }
        return text
    }

    /// Returns the text of an optional member.
    func optionalText(_ name: String) throws(EnrolmentFault) -> [UInt8]? {
        switch members[name] {
        case nil, .null?: nil
        case .text(let text)?: text
        default: throw .dsr(.tokenSyntax)
        }
    }

    /// Returns the bytes of a member in base64.
    func bytes(_ name: String, _ fault: DSRFault = .tokenSyntax) throws(EnrolmentFault) -> [UInt8] {
        guard let bytes = Base64.decode(try text(name)) else { throw .dsr(fault) }
        return bytes
    }

    /// What the app says of its phone. Nil if it says nothing that is stored, which the reference system does not check.
    ///
    /// - Parameter now: The time in seconds since 1970.
    func signals(now: Int64) -> Signals? {
        members["deviceAttributes"]?.object.flatMap { Signals($0, claimedAt: now) }
    }

    /// Returns an Android phone's chain in DER, leaf first.
    func chain() throws(EnrolmentFault) -> [[UInt8]] {
        guard case .array(let elements)? = members["attestCertChain"],
            (1...RequestContent.certificateLimit).contains(elements.count)
        else { throw .dsr(.tokenSyntax) }
        var chain: [[UInt8]] = []
        for element in elements {
            guard let text = element.text, let der = Base64.decode(text) else { throw .dsr(.tokenSyntax) }
            chain.append(der)
        }
        return chain
    }
}

/// The content of `POST /register-device` and `POST /device-attestation`.
struct DSRContent {
    let token: CompactJWS
    private let body: JSONObject

    init(_ content: [UInt8]) throws(EnrolmentFault) {
        body = try JSONObject(content: content)
        guard let text = body["token"]?.text else { throw .dsr(.constraint(.token)) }
        do throws(JWSFault) { token = try CompactJWS(text) } catch { throw .dsr(.tokenMalformed) }
    }

    /// Returns the PKCE code challenge, by the method S256 (RFC 7636 section 4.2): 32 bytes.
    func codeChallenge() throws(EnrolmentFault) -> [UInt8] {
        guard let text = body["codeChallenge"]?.text, let digest = Base64URL.decode(text.span), digest.count == 32
        else { throw .dsr(.constraint(.codeChallenge)) }
        return digest
    }
}

/// The parameters of a form or a query (application/x-www-form-urlencoded).
struct FormFields {
    private let fields: [(name: [UInt8], value: [UInt8])]

    /// Parses a text. What has another form is left out.
    init(_ text: [UInt8]) {
        let space = UInt8(ascii: " ")
        fields = text.split(separator: UInt8(ascii: "&")).compactMap { pair in
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = PercentEncoding.decode(parts[0], plus: space),
                let value = PercentEncoding.decode(parts[1], plus: space)
            else {
                return nil
            }
            return (name, value)
        }
    }

    /// Returns the value of a parameter that occurs once and is not empty.
    subscript(_ parameter: DSRFault.Parameter) -> [UInt8]? {
        let found = fields.filter { $0.name.elementsEqual(parameter.rawValue.utf8) }
        return found.count == 1 && !found[0].value.isEmpty ? found[0].value : nil
    }

    func required(_ parameter: DSRFault.Parameter, atMost limit: Int = 512) throws(EnrolmentFault) -> [UInt8] {
        guard let value = self[parameter], value.count <= limit else { throw .dsr(.constraint(parameter)) }
        return value
    }
}
