import Foundation

/// A file of `docs/vectors`: the proofs and the key binding of one platform, with fixed keys and times.
public struct ProofVectors: Decodable, Sendable {
    public struct Key: Decodable, Sendable {
        /// The uncompressed point, in hexadecimal.
        public let point: String
        /// The key id, in base64.
        public let keyid: String
    }

    /// The gateway that issued the challenge. Its secret, store and epoch are in hexadecimal.
    public struct Gateway: Decodable, Sendable {
        public let challengeSecret: String
        public let store: String
        public let epoch: String
        /// Its time when it receives the requests, in seconds since 1970.
        public let time: Int64

        enum CodingKeys: String, CodingKey {
            case challengeSecret = "challenge_secret"
            case store
            case epoch
            case time
        }
    }

    public struct Request: Decodable, Sendable {
        public let name: String
        public let method: String
        public let url: String
        /// Names and values.
        public let fields: [[String]]
        public let content: String
        public let counter: UInt32
        public let created: Int64
        /// Nil for a request that was changed after it was proven.
        public let signatureBase: String?
        /// The assertion, or the signature in DER, in hexadecimal.
        public let signature: String?
        /// The names and values of the proof's fields.
        public let proof: [[String]]
        /// `verified`, or the denial.
        public let verdict: String

        enum CodingKeys: String, CodingKey {
            case name
            case method
            case url
            case fields
            case content
            case counter
            case created
            case signatureBase = "signature_base"
            case signature
            case proof
            case verdict
        }
    }

    public struct KeyBinding: Decodable, Sendable {
        public let service: String
        public let nonce: String
        public let hardwareKeyTag: String
        public let counter: UInt32
        public let iat: Int64
        /// The point of the certificate's key, in hexadecimal.
        public let certificateKey: String
        public let thumbprint: String
        /// The text that the hardware key signs; on iOS it asserts its SHA-256.
        public let clientData: String
        /// The assertion, or the signature in DER, in hexadecimal.
        public let signature: String
        /// The JWT.
        public let token: String
        /// The client data hash or the challenge of the attestation in each form, in hexadecimal.
        public let attested: [String: String]

        enum CodingKeys: String, CodingKey {
            case service
            case nonce
            case hardwareKeyTag = "hardware_key_tag"
            case counter
            case iat
            case certificateKey = "certificate_key"
            case thumbprint
            case clientData = "client_data"
            case signature
            case token
            case attested
        }
    }

    public let app: String
    public let key: Key
    public let gateway: Gateway
    /// The value of Accept-Signature with the challenge.
    public let acceptSignature: String
    public let requests: [Request]
    public let keyBinding: KeyBinding

    enum CodingKeys: String, CodingKey {
        case app
        case key
        case gateway
        case acceptSignature = "accept_signature"
        case requests
        case keyBinding = "key_binding"
    }

    /// Reads the file of a platform.
    ///
    /// - Parameter platform: `ios` or `android`.
    public static func read(_ platform: String) throws -> ProofVectors {
        let repository = (0..<3).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let file = repository.appendingPathComponent("docs/vectors/\(platform).json")
        return try JSONDecoder().decode(ProofVectors.self, from: Data(contentsOf: file))
    }
}
