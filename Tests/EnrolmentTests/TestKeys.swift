import Challenges
import Cryptography
import Encoding
import Enrolment
import Vocabulary

/// A library context with the computations of the tests.
struct Keys {
    let library: LibraryContext

    init() throws { library = try LibraryContext() }

    func hash(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }

    func generate() throws -> P256SigningKey { try P256SigningKey(PrivateKey.generateP256(library), library) }

    func verification(_ key: P256SigningKey) throws -> P256VerificationKey {
        let point = key.point
        return try P256VerificationKey(point: point.span, library)
    }

    func keyID(_ point: [UInt8]) throws -> KeyID? {
        let digest = try hash(point)
        return KeyID(digest: digest.span)
    }

    /// Returns an ES256 signature: r and s of 32 bytes each (RFC 7518 section 3.4).
    func sign(_ message: [UInt8], _ key: P256SigningKey) throws -> [UInt8] {
        let der = try key.sign(digest: library.sha256(of: message.span))
        let length = Int(der[3])
        let r = der[4..<(4 + length)]
        let s = der[(6 + length)...]
        return [r, s].flatMap { integer in
            [UInt8](repeating: 0, count: max(0, 32 - integer.count)) + integer.suffix(32)
        }
    }

    /// Returns an assertion's signature in DER.
    func sign(authenticatorData: [UInt8], clientData: [UInt8], _ key: P256SigningKey) throws -> [UInt8] {
        let nonce = try hash(authenticatorData + hash(clientData))
        return try key.sign(digest: library.sha256(of: nonce.span))
    }
}

func base64URL(_ bytes: [UInt8]) -> String { Base64URL.encode(bytes.span) }

func base64URL(_ text: String) -> String { base64URL(Array(text.utf8)) }

/// A JSON object under the test's control: members may be missing, wrong or repeated.
struct Draft {
    /// Names with values in JSON.
    var members: [(name: String, value: String)]

    var text: String { "{" + members.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}" }

    subscript(_ name: String) -> String? {
        get { members.first { $0.name == name }?.value }
        set {
            if let index = members.firstIndex(where: { $0.name == name }) {
                if let newValue { members[index].value = newValue } else { members.remove(at: index) }
            } else if let newValue {
                members.append((name, newValue))
            }
        }
    }
}

func quoted(_ text: String) -> String { "\"\(text)\"" }

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}

/// A key-binding token that is valid except for the test's changes before signing.
struct KeyBindingDraft {
    static let provider = "https://enrol.example.org"
    static let now: Int64 = 1_790_000_000
    static let nonce = "EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8"
    static let appID = "TEAM123456.com.example.app"

    let keys: Keys
    let newKey: P256SigningKey
    let hardwareKey: P256SigningKey

    var header: Draft
    var claims: Draft
    var jwk: Draft
    /// Members of `cnf` besides `jwk`.
    var confirmation = Draft(members: [])
    /// The key that signs the token, by default the new key.
    var signer: P256SigningKey
    /// The change to the signature at the end.
    var alterSignature: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// Members of the body besides `assertion`.
    var body = Draft(members: [])

    init(
        _ keys: Keys, hardwareKey: P256SigningKey? = nil, newKey: P256SigningKey? = nil, nonce: String = Self.nonce,
        counter: UInt8 = 7, now: Int64 = Self.now
    ) throws {
        self.keys = keys
        let newKey = try newKey ?? keys.generate()
        let hardwareKey = try hardwareKey ?? keys.generate()
        self.newKey = newKey
        self.hardwareKey = hardwareKey
        signer = newKey
        let x = base64URL(Array(newKey.point[1..<33]))
        let y = base64URL(Array(newKey.point[33...]))
        jwk = Draft(members: [("kty", "\"EC\""), ("crv", "\"P-256\""), ("x", quoted(x)), ("y", quoted(y))])
        let thumbprint = base64URL(try keys.hash(Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)))
        let tag = base64URL(try keys.hash(hardwareKey.point))
        let data = try keys.hash(Array(Self.appID.utf8)) + [0x40, 0, 0, 0, counter]
        let clientData = #"{"nonce":"\#(nonce)","jwk_thumbprint":"\#(thumbprint)"}"#
        let signature = try keys.sign(authenticatorData: data, clientData: Array(clientData.utf8), hardwareKey)
        header = Draft(members: [("alg", "\"ES256\""), ("kid", quoted(thumbprint)), ("typ", "\"rp-kb+jwt\"")])
        claims = Draft(members: [
            ("iss", quoted("\(Self.provider)/instance/\(thumbprint)")), ("aud", quoted(Self.provider)),
            ("iat", "\(now)"), ("exp", "\(now + 300)"), ("nonce", quoted(nonce)),
            ("hardware_key_tag", quoted(tag)), ("hardware_signature", quoted(base64URL(signature))),
            ("key_attestation", quoted(base64URL(data))), ("cnf", "{}"),
        ])
    }

    var thumbprint: String { String((header["kid"] ?? "").dropFirst().dropLast()) }

    /// Returns the JWT.
    func token() throws -> String {
        var claims = claims
        if claims["cnf"] == "{}" {
            claims["cnf"] = Draft(members: [("jwk", jwk.text)] + confirmation.members).text
        }
        let input = base64URL(header.text) + "." + base64URL(claims.text)
        return input + "." + base64URL(alterSignature(try keys.sign(Array(input.utf8), signer)))
    }

    /// Returns the content of the request.
    func content() throws -> [UInt8] {
        Array(Draft(members: [("assertion", quoted(try token()))] + body.members).text.utf8)
    }

    func verifier(admission: AdmissionTokenVerifier? = nil) throws -> KeyBindingVerifier {
        let provider = ProviderURL(Self.provider)
        guard let provider else { throw EnrolmentFault.tokenAudience }
        return KeyBindingVerifier(provider: provider, admission: admission, keys.library)
    }

    func verify(
        admission: AdmissionTokenVerifier? = nil, now: Int64 = Self.now
    ) throws -> Result<KeyBinding, EnrolmentFault> {
        try Self.verify(content(), verifier(admission: admission), now: now)
    }

    static func verify(
        _ content: [UInt8], _ verifier: KeyBindingVerifier, now: Int64 = now
    ) -> Result<KeyBinding, EnrolmentFault> {
        do throws(EnrolmentFault) { return .success(try verifier.verify(content, now: now)) } catch {
            return .failure(error)
        }
    }
}
