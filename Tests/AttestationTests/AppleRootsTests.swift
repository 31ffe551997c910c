import Attestation
import Cryptography
import Encoding
import Foundation
import Testing
import Vocabulary

@Suite("Apple's roots")
struct AppleRootsTests {
    /// The fingerprints that Apple publishes on www.apple.com/certificateauthority.
    private static let fingerprints = [
        "apple-app-attestation-root-ca": "1cb9823ba28ba6ad2d33a006941de2ae4f513ef1d4e831b9f7e0fa7b6242c932",
        "apple-root-ca-g3": "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179",
    ]

    @Test("the built-in roots are those in certs/roots and have the published fingerprints")
    func files() throws {
        let library = try LibraryContext()
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("certs/roots")
        let roots = [
            ("apple-app-attestation-root-ca", try AppleRoots.appAttestation(library).certificate),
            ("apple-root-ca-g3", try AppleRoots.receipts(library).certificate),
        ]
        for (name, certificate) in roots {
            let pem = try Data(contentsOf: folder.appendingPathComponent("\(name).pem"))
            #expect(try certificate.pem() == Array(pem))
            #expect(Hexadecimal.encode(try certificate.thumbprint(library)) == Self.fingerprints[name])
        }
    }

    @Test("a certificate that is no authority is not accepted as a root")
    func noAuthority() throws {
        let authority = try TestAuthority(LibraryContext())
        let key = try TestAuthority.key("P-256", authority.library)
        let leaf = try authority.leafOfRoot(
            TestAuthority.Request(subject: "leaf", validity: TestAuthority.validity, isAuthority: false), for: key)
        #expect(throws: CryptographyError.self) { try TrustedRoot(leaf, authority.library) }
    }

    @Test("a leaf issued directly by the root is not verified over any intermediate")
    func leafOfRoot() throws {
        let authority = try TestAuthority(LibraryContext())
        let key = try TestAuthority.key("P-256", authority.library)
        let leaf = try authority.leafOfRoot(
            TestAuthority.Request(subject: "leaf", validity: TestAuthority.validity, isAuthority: false), for: key)
        let root = try authority.trustedRoot()
        #expect(try root.refusal(of: leaf, over: authority.intermediate()) != nil)
        #expect(try root.refusal(of: leaf, over: authority.root) != nil)
    }
}
