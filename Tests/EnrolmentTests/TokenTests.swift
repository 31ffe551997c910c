import Cryptography
import Enrolment
import Testing

@Suite("JSON Web Signatures and Keys")
struct TokenTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    // RFC 7515 appendix A.3.
    private static let jwk =
        #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#
    private static let jws =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"

    private func key(_ text: String) throws -> PublicJWK? {
        PublicJWK(try JSONReader.object(in: Array(text.utf8), longest: 1024))
    }

    private func token(_ text: String) -> Result<CompactJWS, JWSFault> {
        do throws(JWSFault) { return .success(try CompactJWS(Array(text.utf8))) } catch { return .failure(error) }
    }

    @Test("RFC 7515's ES256 example verifies with its key alone")
    func example() throws {
        let token = try token(Self.jws).get()
        #expect(token.header["alg"]?.spells("ES256") == true)
        #expect(token.payload["iss"]?.spells("joe") == true && token.payload["exp"]?.integer == 1_300_819_380)
        #expect(token.payload["http://example.com/is_root"] == .boolean(true))
        let point = try #require(try key(Self.jwk)).point
        let verification = try P256VerificationKey(point: point.span, keys.library)
        #expect(try token.isSigned(by: verification, keys.library))
        #expect(try !token.isSigned(by: keys.verification(keys.generate()), keys.library))
        #expect("\(String(decoding: token.signingInput, as: UTF8.self)).\(base64URL(token.signature))" == Self.jws)
    }

    @Test("RFC 7515's unsecured example has no valid signature")
    func unsecured() throws {
        // Appendix A.5.
        let text =
            "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
        let token = try token(text).get()
        #expect(token.signature.isEmpty)
        #expect(try !token.isSigned(by: keys.verification(keys.generate()), keys.library))
    }

    @Test("a thumbprint follows RFC 7638, whatever the member order (example of RFC 9449 section 6.1)")
    func thumbprint() throws {
        let x = #""x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs""#
        let y = #""y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA""#
        for text in [#"{"kty":"EC",\#(x),\#(y),"crv":"P-256"}"#, #"{ \#(y), "crv": "P-256", \#(x), "kty": "EC" }"#] {
            let key = try #require(try key(text))
            #expect(try key.thumbprint(keys.library) == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
        }
    }

    @Test("a second spelling of a token is malformed")
    func spellings() {
        let parts = Self.jws.split(separator: ".").map(String.init)
        let wrong = [
            Self.jws + ".", "." + Self.jws, Self.jws + "=", Self.jws + "\n", " " + Self.jws,
            parts[0] + "=." + parts[1] + "." + parts[2],
            parts[0] + "\n." + parts[1] + "." + parts[2],
            parts[0] + "." + parts[1] + "." + parts[2].replacing("-", with: "+"),
            // Bits behind the last byte.
            parts[0] + "." + parts[1] + "." + parts[2].dropLast() + "R",
            parts[0] + "." + parts[1], parts[0],
        ]
        for text in wrong { #expect(token(text) == .failure(.malformed), "\(text)") }
        #expect(token("bm9wZQ.e30.AA") == .failure(.json(.malformed)))
        #expect(token(String(repeating: "A", count: CompactJWS.lengthLimit + 1)) == .failure(.malformed))
    }
}
