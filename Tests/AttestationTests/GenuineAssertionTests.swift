import Attestation
import Cryptography
import Encoding
import Foundation
import Testing
import TestVectors

/// Assertions of real devices with iOS 14 to 18. They must verify, and no altered copy may.
@Suite("Genuine assertions", .enabled(if: SharedVectors.has(GenuineAssertion.path)))
struct GenuineAssertionTests {
    private let verifying: Verifying

    init() throws { verifying = try Verifying() }

    private func key(_ point: [UInt8]) throws(CryptographyError) -> P256VerificationKey {
        try P256VerificationKey(point: point.span, verifying.library)
    }

    @Test("all expected samples are present")
    func count() {
        #expect(GenuineAssertion.all.count == 5)
    }

    @Test(
        "each assertion verifies with its key, app and hash, and returns its counter", arguments: GenuineAssertion.all)
    func accepted(_ genuine: GenuineAssertion) throws {
        let verified = try verifying.verify(
            genuine.bytes, genuine.clientDataHash, key(genuine.point), rpIDHash: verifying.hash(genuine.appID)
        ).get()
        #expect(verified.counter == genuine.counter)
        #expect(verified.extensions == AppExtensions())
    }

    @Test("an assertion of another app is refused as such", arguments: GenuineAssertion.all)
    func otherApp(_ genuine: GenuineAssertion) throws {
        let key = try key(genuine.point)
        let others = try [
            verifying.hash(genuine.appID + [0x78]), verifying.hash([]), [], [UInt8](repeating: 0, count: 32),
            Array(verifying.hash(genuine.appID).dropLast()), verifying.hash(genuine.appID) + [0],
        ]
        for other in others {
            let result = verifying.verify(genuine.bytes, genuine.clientDataHash, key, rpIDHash: other)
            #expect(result == .failure(.rpIDMismatch))
        }
    }

    @Test("an assertion of another device's key is refused", arguments: GenuineAssertion.all)
    func otherKey(_ genuine: GenuineAssertion) throws {
        let rpIDHash = try verifying.hash(genuine.appID)
        for other in GenuineAssertion.all where other.point != genuine.point {
            let result = try verifying.verify(
                genuine.bytes, genuine.clientDataHash, key(other.point), rpIDHash: rpIDHash)
            #expect(result == .failure(.signatureInvalid))
        }
    }

    @Test("one flipped bit in the assertion is refused by the check it concerns", arguments: GenuineAssertion.all)
    func flippedAssertion(_ genuine: GenuineAssertion) throws {
        let key = try key(genuine.point)
        let rpIDHash = try verifying.hash(genuine.appID)
        let parts = try verifying.parse(genuine.bytes).get()
        let data = parts.authenticatorData
        for bit in 0..<(genuine.bytes.count * 8) {
            let position = bit / 8
            var bytes = genuine.bytes
            bytes[position] ^= 1 << UInt8(bit % 8)
            let fault = verifying.verify(bytes, genuine.clientDataHash, key, rpIDHash: rpIDHash).failure
            let counter = bytes[(data.range.upperBound - 4)..<data.range.upperBound]
            if data.rpIDHash.contains(position) {
                #expect(fault == .rpIDMismatch)
            } else if data.range.contains(position), counter.allSatisfy({ $0 == 0 }) {
                #expect(fault == .counterZero)
            } else if data.range.contains(position) || parts.signature.contains(position) {
                #expect(fault == .signatureInvalid)
            } else {
                #expect(fault?.step == .form)
            }
        }
    }

    @Test("one flipped bit in the client data hash is refused", arguments: GenuineAssertion.all)
    func flippedHash(_ genuine: GenuineAssertion) throws {
        let key = try key(genuine.point)
        let rpIDHash = try verifying.hash(genuine.appID)
        for bit in 0..<(genuine.clientDataHash.count * 8) {
            var hash = genuine.clientDataHash
            hash[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(verifying.verify(genuine.bytes, hash, key, rpIDHash: rpIDHash) == .failure(.signatureInvalid))
        }
        for hash in [[], Array(genuine.clientDataHash.dropLast()), genuine.clientDataHash + [0]] {
            #expect(verifying.verify(genuine.bytes, hash, key, rpIDHash: rpIDHash) == .failure(.signatureInvalid))
        }
    }

    @Test("a key with one flipped bit is not a valid key", arguments: GenuineAssertion.all)
    func flippedKey(_ genuine: GenuineAssertion) throws {
        for bit in 0..<(genuine.point.count * 8) {
            var point = genuine.point
            point[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: CryptographyError.self) { try key(point) }
        }
    }

    @Test("an assertion truncated anywhere or extended is malformed", arguments: GenuineAssertion.all)
    func cut(_ genuine: GenuineAssertion) throws {
        let key = try key(genuine.point)
        let rpIDHash = try verifying.hash(genuine.appID)
        for count in 0..<genuine.bytes.count {
            let bytes = Array(genuine.bytes[..<count])
            let result = verifying.verify(bytes, genuine.clientDataHash, key, rpIDHash: rpIDHash)
            #expect(result == .failure(.malformed(.truncated)))
        }
        for byte: UInt8 in [0x00, 0xa0, 0xff] {
            let result = verifying.verify(genuine.bytes + [byte], genuine.clientDataHash, key, rpIDHash: rpIDHash)
            #expect(result == .failure(.malformed(.trailingBytes)))
        }
    }

    @Test(
        "bytes moved from the authenticator data to the client data hash are refused", arguments: GenuineAssertion.all)
    func moved(_ genuine: GenuineAssertion) throws {
        // The nonce hashes one value after the other without a separator. Only lengths separate them.
        let parts = try verifying.parse(genuine.bytes).get()
        let data = Array(genuine.bytes[parts.authenticatorData.range])
        let signature = Array(genuine.bytes[parts.signature])
        let shorter = CBORWriter.map([
            ("signature", CBORWriter.bytes(signature)),
            ("authenticatorData", CBORWriter.bytes(Array(data.dropLast()))),
        ])
        let result = try verifying.verify(
            shorter, [data[36]] + genuine.clientDataHash, key(genuine.point), rpIDHash: verifying.hash(genuine.appID))
        #expect(result == .failure(.authenticatorData(.tooShort)))
    }
}

/// A published assertion of a real device; see `SharedVectors`.
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

    /// All assertions. Empty if the vectors are absent.
    static let all: [GenuineAssertion] = {
        struct File: Decodable {
            var vectors: [GenuineAssertion]
        }
        do { return try SharedVectors.read(File.self, path)?.vectors ?? [] } catch {
            fatalError("\(path) cannot be read: \(error)")
        }
    }()
}
