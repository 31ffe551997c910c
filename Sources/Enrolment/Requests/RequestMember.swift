internal import Challenges
internal import Vocabulary

/// What requests consist of: members of a body, of a token's header, or of its claims.
public enum RequestMember: String, Sendable, CaseIterable {
    // Instance initialization.
    case nonce
    case hardwareKeyTag = "hardware_key_tag"
    case keyAttestation = "key_attestation"
    case mtlsPublicKey = "mtls_public_key"
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
    case confirmation = "cnf"
    case jwk
    case admissionToken = "admission_token"
}

/// The content of requests.
public enum RequestContent {
    /// Most bytes: an attestation of the greatest length in base64url, and room for the rest; or a token of the greatest.
    public static let lengthLimit = 64 << 10
}

extension JSONObject {
    /// Reads the content of a request.
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

    /// Bytes in base64url, in its one spelling. - Parameter lengths: how many bytes there may be.
    func bytes(_ member: RequestMember, _ lengths: ClosedRange<Int>) throws(EnrolmentFault) -> [UInt8] {
        let text = try text(member)
        guard let bytes = Base64URLText.decode(text.span), lengths.contains(bytes.count) else {
            throw .valueFormat(member)
        }
        return bytes
    }

    /// The key id that a hardware key is registered under: on iOS the tag is nothing else.
    func hardwareKeyID() throws(EnrolmentFault) -> KeyID {
        let bytes = try bytes(.hardwareKeyTag, 32...32)
        guard let keyID = KeyID(digest: bytes.span) else { throw .valueFormat(.hardwareKeyTag) }
        return keyID
    }

    func hasOnly(_ members: [RequestMember]) -> Bool { hasOnly(members.map(\.rawValue)) }
}

/// A nonce as a client sends it back. Whether it is ours, fresh and unused is for others.
public struct IssuedNonce: Hashable, Sendable {
    /// How long the text is, in characters: at least 128 bits.
    static let lengths = 22...128

    /// Base64url in its one spelling, so that equal bytes are equal text.
    public let text: [UInt8]
    /// What the text stands for.
    public let bytes: [UInt8]

    /// Nil comes of text of another form.
    public init?(_ text: [UInt8]) {
        guard Self.lengths.contains(text.count), let bytes = Base64URLText.decode(text.span) else { return nil }
        self.text = text
        self.bytes = bytes
    }
}

/// The URL that the enrolment service is known under: audience of every token made for it.
public struct ProviderURL: Hashable, Sendable {
    public let text: String

    /// - Parameter text: `https://` and more, without a slash at the end, query or fragment, in unreserved characters of
    ///   URLs and `:/[]%`. Anything else is no such URL: it is compared byte by byte, so it has one spelling.
    public init?(_ text: String) {
        let scheme = "https://"
        let admitted = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%".utf8)
        guard text.utf8.starts(with: scheme.utf8), text.utf8.count > scheme.utf8.count, text.utf8.count <= 1024,
            text.utf8.last != UInt8(ascii: "/"), text.utf8.allSatisfy(admitted.contains)
        else { return nil }
        self.text = text
    }

    /// The `iss` of the app instance whose new key has this thumbprint.
    func instance(_ thumbprint: String) -> String { "\(text)/instance/\(thumbprint)" }
}
