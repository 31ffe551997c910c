internal import Challenges
internal import Encoding
internal import Vocabulary

/// The members of requests: of the body, and of a token's header or claims.
public enum RequestMember: String, Sendable, CaseIterable {
    // Instance initialization.
    case nonce
    case hardwareKeyTag = "hardware_key_tag"
    case keyAttestation = "key_attestation"
    case mtlsPublicKey = "mtls_public_key"
    case mtlsKeyAttestation = "mtls_key_attestation"
    case playIntegrityToken = "play_integrity_token"
    // Key binding.
    case assertion
    case algorithm = "alg"
    case keyID = "kid"
    case type = "typ"
    case issuer = "iss"
    case audience = "aud"
    case issuedAt = "iat"
    case expiry = "exp"
    case hardwareSignature = "hardware_signature"
    case counter
    case confirmation = "cnf"
    case jwk
    case admissionToken = "admission_token"
    // Client attestations of wallets.
    case integrityAssertion = "integrity_assertion"
    case platform
    // The endpoints of enrolled devices.
    case signals
    case status
}

/// The rules for the content of requests.
public enum RequestContent {
    /// Length limit in bytes. It has room for the longest attestation in base64url with the other members, or for the
    /// longest token.
    public static let lengthLimit = 64 << 10
    /// Limit of certificates in a chain. The verifier accepts fewer, and its refusal names the number.
    static let certificateLimit = 16
}

extension JSONObject {
    /// Parses the content of a request.
    init(content: [UInt8]) throws(EnrolmentFault) {
        do throws(JSONFault) {
            self = try JSONReader.object(in: content, longest: RequestContent.lengthLimit)
        } catch {
            throw .contentMalformed(error)
        }
    }

    func required(_ member: RequestMember) throws(EnrolmentFault) -> JSONValue {
        guard let value = self[member.rawValue] else { throw .memberMissing(member) }
        return value
    }

    func text(_ member: RequestMember) throws(EnrolmentFault) -> [UInt8] {
        guard let text = try required(member).text else { throw .valueFormat(member) }
        return text
    }

    func nonce() throws(EnrolmentFault) -> IssuedNonce {
        guard let nonce = IssuedNonce(try text(.nonce)) else { throw .valueFormat(.nonce) }
        return nonce
    }

    /// Returns the bytes of a member in canonical base64url.
    ///
    /// - Parameter lengths: The permitted numbers of bytes.
    func bytes(_ member: RequestMember, _ lengths: ClosedRange<Int>) throws(EnrolmentFault) -> [UInt8] {
        let text = try text(member)
        guard let bytes = Base64URL.decode(text.span), lengths.contains(bytes.count) else {
            throw .valueFormat(member)
        }
        return bytes
    }

    /// Returns the key id under which the hardware key of an iPhone is registered, which is its tag.
    func hardwareKeyID() throws(EnrolmentFault) -> KeyID {
        let bytes = try bytes(.hardwareKeyTag, 32...32)
        guard let keyID = KeyID(digest: bytes.span) else { throw .valueFormat(.hardwareKeyTag) }
        return keyID
    }

    /// Returns the certificates of a member, in DER, leaf first.
    func certificates(_ member: RequestMember) throws(EnrolmentFault) -> [[UInt8]] {
        guard case .array(let elements) = try required(member), elements.count <= RequestContent.certificateLimit
        else { throw .valueFormat(member) }
        var certificates: [[UInt8]] = []
        for element in elements {
            guard let text = element.text, let certificate = Base64URL.decode(text.span) else {
                throw .valueFormat(member)
            }
            certificates.append(certificate)
        }
        return certificates
    }

    /// Returns the token of Google Play, if there is one. Its form is checked by its verifier.
    func playIntegrityToken() throws(EnrolmentFault) -> [UInt8]? {
        self[RequestMember.playIntegrityToken.rawValue] == nil ? nil : try text(.playIntegrityToken)
    }

    func hasOnly(_ members: [RequestMember]) -> Bool { hasOnly(members.map(\.rawValue)) }
}

/// A nonce as a client returns it. Whether it is valid and unused is checked elsewhere.
public struct IssuedNonce: Hashable, Sendable {
    /// The permitted lengths of the text in characters: at least 128 bits.
    static let lengths = 22...128

    /// Canonical base64url, so that equal bytes have equal texts.
    public let text: [UInt8]
    /// The decoded bytes.
    public let bytes: [UInt8]

    /// Parses a nonce.
    ///
    /// - Returns: nil for another form.
    public init?(_ text: [UInt8]) {
        guard Self.lengths.contains(text.count), let bytes = Base64URL.decode(text.span) else { return nil }
        self.text = text
        self.bytes = bytes
    }
}

/// The public URL of the enrolment service: the audience of all tokens for it.
public struct ProviderURL: Hashable, Sendable {
    public let text: String

    /// Parses a URL. It is compared byte by byte, so only one spelling is accepted.
    ///
    /// - Parameter text: `https://` and more in unreserved characters and `:/[]%`, without a slash at the end, query or
    ///   fragment.
    /// - Returns: nil for another form.
    public init?(_ text: String) {
        let scheme = "https://"
        let admitted = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%".utf8)
        guard text.utf8.starts(with: scheme.utf8), text.utf8.count > scheme.utf8.count, text.utf8.count <= 1024,
            text.utf8.last != UInt8(ascii: "/"), text.utf8.allSatisfy(admitted.contains)
        else { return nil }
        self.text = text
    }

    /// Returns the `iss` of the app instance whose new key has this thumbprint.
    func instance(_ thumbprint: String) -> String { "\(text)/instance/\(thumbprint)" }
}
