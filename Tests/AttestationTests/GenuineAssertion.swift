import Foundation
import TestVectors
import Testing

/// An assertion of a real device, published by others; see `SharedVectors`.
struct GenuineAssertion: Decodable, Sendable, CustomTestStringConvertible {
    static let path = "apple/assertions.json"

    private var id: String
    private var assertion: Data
    private var appIdentifier: String
    private var publicKey: Data
    private var hash: Data
    var counter: UInt32

    private enum CodingKeys: String, CodingKey {
        case id
        case assertion
        case appIdentifier = "app_id"
        case publicKey = "public_key_x963"
        case hash = "client_data_hash"
        case counter
    }

    var testDescription: String { id }
    var bytes: [UInt8] { Array(assertion) }
    var appID: [UInt8] { Array(appIdentifier.utf8) }
    var point: [UInt8] { Array(publicKey) }
    var clientDataHash: [UInt8] { Array(hash) }

    /// Empty where the vectors are absent.
    static let all: [GenuineAssertion] = {
        struct File: Decodable {
            var vectors: [GenuineAssertion]
        }
        do { return try SharedVectors.read(File.self, path)?.vectors ?? [] } catch {
            fatalError("\(path) cannot be read: \(error)")
        }
    }()
}
