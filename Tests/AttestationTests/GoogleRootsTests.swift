import Attestation
import Cryptography
import Encoding
import Foundation
import Testing

@Suite("Google's roots of key attestations")
struct GoogleRootsTests {
    /// SHA-256 of the keys that Google publishes in the documentation of key attestation.
    private static let keys = [
        "google-key-attestation-rsa": "feb2ea7551ee316ed4bb443c8293b884dbfdea40b603ee3e4f4a897e4580fbae",
        "google-key-attestation-ca1": "3ee44512a1af2beb39c889490c60ea3f82e43f5d5a5532f5ab9419f676cd07ec",
    ]

    @Test("the built-in roots are those in certs/roots and have the published keys")
    func files() throws {
        let library = try LibraryContext()
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("certs/roots")
        let roots = try GoogleRoots.keyAttestation(library)
        #expect(roots.count == 2)
        for (name, certificate) in zip(["google-key-attestation-rsa", "google-key-attestation-ca1"], roots) {
            let pem = try Data(contentsOf: folder.appendingPathComponent("\(name).pem"))
            #expect(try certificate.pem() == Array(pem))
            #expect(Hexadecimal.encode(try certificate.keyDigest(library).bytes) == Self.keys[name])
        }
    }
}
