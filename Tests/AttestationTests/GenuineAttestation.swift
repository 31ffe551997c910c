import Attestation
import Foundation
import TestVectors
import Testing
import Vocabulary

/// An attestation of a real device, published by others; see `SharedVectors`.
struct GenuineAttestation: Decodable, Sendable, CustomTestStringConvertible {
    static let path = "apple/attestations.json"

    var id: String
    var appID: String
    var environment: String
    private var object: Data
    private var key: Data
    private var hash: Data
    private var point: Data
    private var time: String
    private var leafNotBefore: String
    private var leafNotAfter: String
    var systemVersion: String

    private enum CodingKeys: String, CodingKey {
        case id
        case appID = "app_id"
        case environment
        case object = "attestation_object"
        case key = "key_id"
        case hash = "client_data_hash"
        case point = "public_key_x963"
        case time = "verification_time"
        case leafNotBefore = "leaf_not_before"
        case leafNotAfter = "leaf_not_after"
        case systemVersion = "os_version"
    }

    var testDescription: String { id }
    /// As it was published, this one's receipt has one altered byte in the certificate of its signer.
    var hasGenuineReceipt: Bool { id != "ios-26.2-4949301d" }
    var bytes: [UInt8] { Array(object) }
    var keyID: [UInt8] { Array(key) }
    var clientDataHash: [UInt8] { Array(hash) }
    var publicKey: [UInt8] { Array(point) }
    var verificationTime: Int64 { Self.seconds(time) }
    var notBefore: Int64 { Self.seconds(leafNotBefore) }
    var notAfter: Int64 { Self.seconds(leafNotAfter) }

    private static func seconds(_ text: String) -> Int64 {
        guard let date = ISO8601DateFormatter().date(from: text) else { fatalError("no time: \(text)") }
        return Int64(date.timeIntervalSince1970)
    }

    /// What the app sent.
    func evidence() throws -> AttestationEvidence {
        let id = KeyID(digest: keyID.span)
        return AttestationEvidence(attestation: bytes, clientDataHash: clientDataHash, keyID: try #require(id))
    }

    /// Empty where the vectors are absent.
    static let all: [GenuineAttestation] = {
        struct File: Decodable {
            var vectors: [GenuineAttestation]
        }
        do { return try SharedVectors.read(File.self, path)?.vectors ?? [] } catch {
            fatalError("\(path) cannot be read: \(error)")
        }
    }()
}
