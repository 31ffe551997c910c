import Attestation
import Cryptography
import Encoding
import Testing

/// Keys and tokens of this suite were made with jwcrypto and Python's cryptography, unless an RFC is named.
@Suite("JWK Sets")
struct JWKSetTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func set(_ keys: String...) throws(JWKSetFault) -> JWKSet {
        try JWKSet(Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8), library)
    }

    private func fault(_ text: String) -> JWKSetFault? {
        do throws(JWKSetFault) { _ = try JWKSet(Array(text.utf8), library) } catch { return error }
        return nil
    }

    private func fault(keys: String...) -> JWKSetFault? { fault(#"{"keys":[\#(keys.joined(separator: ","))]}"#) }

    /// Returns why a token is refused. Nil if it is accepted.
    private func verify(_ token: String, _ set: JWKSet) throws -> JWSVerificationFault? {
        let token = try CompactJWS(Array(token.utf8))
        do throws(JWSVerificationFault) { try set.verify(token) } catch { return error }
        return nil
    }

    private func token(_ header: String, _ signature: String, payload: String = #"{"iss":"joe"}"#) -> String {
        [header, payload].map { Base64URL.encode(Array($0.utf8).span) }.joined(separator: ".") + "." + signature
    }

    @Test("the tokens of RFC 7515 A.2 and A.3 verify with the keys of the RFC, and changed ones do not")
    func examples() throws {
        let set = try set(Self.rfcRSA, Self.rfcEC)
        #expect(try verify(Self.rfcRS256, set) == nil)
        #expect(try verify(Self.rfcES256, set) == nil)
        for text in [Self.rfcRS256, Self.rfcES256] {
            let parts = text.split(separator: ".").map(String.init)
            let other = parts[2].hasPrefix("A") ? "B" : "A"
            #expect(try verify("\(parts[0]).\(parts[1]).\(other)\(parts[2].dropFirst())", set) == .signature)
            #expect(try verify("\(parts[0]).e30.\(parts[2])", set) == .signature)
            #expect(try verify("\(parts[0]).\(parts[1]).", set) == .signature)
        }
    }

    @Test("RFC 7517 A.1: a key for encryption is ignored, the RSA key has its algorithm and kid")
    func mixed() throws {
        let encryption =
            #"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"enc","kid":"1"}"#
        let rsa = Self.rfcRSA.replacing(#""kty":"RSA""#, with: #""kty":"RSA","alg":"RS256","kid":"2011-04-29""#)
        let set = try set(encryption, rsa)
        #expect(set.keys.map(\.id) == [Array("2011-04-29".utf8)])
        #expect(set.keys[0].accepts(.rs256) && !set.keys[0].accepts(.ps256) && !set.keys[0].accepts(.es256))
    }

    @Test("ES256, RS256 and PS256 verify with the key that kid names")
    func algorithms() throws {
        let set = try set(Self.rsa, Self.ec)
        #expect(try verify(token(Self.es, Self.esSignature), set) == nil)
        #expect(try verify(token(Self.rs, Self.rsSignature), set) == nil)
        #expect(try verify(token(Self.ps, Self.psSignature), set) == nil)
        #expect(try verify(token(Self.ps, Self.rsSignature), set) == .signature)
        #expect(try verify(token(Self.rs, Self.psSignature), set) == .signature)
    }

    @Test("PS256 with another salt or mask, and RS256 over SHA-1, are refused")
    func parameters() throws {
        let set = try set(Self.rsa)
        let ps = #"{"alg":"PS256","kid":"r"}"#
        #expect(try verify(token(ps, Self.shortSalt), set) == .signature)
        #expect(try verify(token(ps, Self.otherMask), set) == .signature)
        #expect(try verify(token(#"{"alg":"RS256","kid":"r"}"#, Self.sha1), set) == .signature)
    }

    @Test("alg confusion: none, HMAC by the public key, and the algorithm of another key are refused")
    func confusion() throws {
        let set = try set(Self.rsa, Self.ec)
        #expect(try verify(token(#"{"alg":"HS256","kid":"r"}"#, Self.hmac), set) == .header)
        for alg in ["none", "None", "NONE", "HS256", "ES384", "RS512", "es256", "", "EdDSA"] {
            #expect(try verify(token(#"{"alg":"\#(alg)","kid":"r"}"#, ""), set) == .header, "\(alg)")
        }
        for header in ["{}", #"{"alg":null}"#, #"{"alg":["RS256"]}"#, #"{"alg":"RS256","kid":"r","crit":["exp"]}"#] {
            #expect(try verify(token(header, Self.rsSignature), set) == .header, "\(header)")
        }
        #expect(try verify(token(#"{"alg":"ES256","kid":"r"}"#, Self.esSignature), set) == .algorithm)
        #expect(try verify(token(#"{"alg":"RS256","kid":"e"}"#, Self.rsSignature), set) == .algorithm)
        let limited = try self.set(Self.rsa.replacing(#""kty""#, with: #""alg":"RS256","kty""#))
        #expect(try verify(token(Self.rs, Self.rsSignature), limited) == nil)
        #expect(try verify(token(Self.ps, Self.psSignature), limited) == .algorithm)
    }

    @Test("an unknown kid is refused, and a missing one unless a single key may be meant")
    func keyIDs() throws {
        let set = try set(Self.rsa, Self.ec)
        for kid in [#""x""#, #""R""#, #""r ""#, #""""#] {
            #expect(
                try verify(token(#"{"alg":"RS256","kid":\#(kid)}"#, Self.rsSignature), set) == .unknownKey, "\(kid)")
        }
        #expect(try verify(token(#"{"alg":"RS256","kid":1}"#, Self.rsSignature), set) == .header)
        #expect(try verify(token(Self.unnamed, Self.unnamedSignature), set) == nil)
        let two = try self.set(Self.rsa, Self.rfcRSA)
        #expect(try verify(token(Self.unnamed, Self.unnamedSignature), two) == .unknownKey)
        let embedded = #"{"alg":"RS256","kid":"x","jwk":\#(Self.rsa),"jku":"https://a.example"}"#
        #expect(try verify(token(embedded, Self.rsSignature), set) == .unknownKey)
    }

    @Test("a set with a weak, damaged, private or repeated key is refused")
    func badKeys() throws {
        for (key, isUnusable) in [
            (Self.weak, true),
            // Exponents 1 and 2, an even modulus, a leading zero.
            (Self.rsa.replacing("AQAB", with: "AQ"), true), (Self.rsa.replacing("AQAB", with: "Ag"), true),
            (Self.rsa.replacing("RaBQ", with: "RaBA"), true), (Self.rsa.replacing("AQAB", with: "AAEAAQ"), true),
            // Not on the curve.
            (Self.ec.replacing("x\":\"k", with: "x\":\"l"), true),
            // Not canonical base64url, missing, of another length.
            (Self.rsa.replacing("AQAB", with: "AQAB="), false), (Self.rsa.replacing(#""e""#, with: #""f""#), false),
            (Self.ec.replacing("x\":\"kW", with: "x\":\""), false), (Self.ec.replacing(#""y""#, with: #""z""#), false),
            (Self.ec.replacing(#""kid":"e""#, with: #""kid":1"#), false),
        ] {
            switch fault(keys: Self.ec.replacing(#""kid":"e""#, with: #""kid":"good""#), key) {
            case .unusableKey?: #expect(isUnusable, "\(key)")
            case .malformedKey?: #expect(!isUnusable, "\(key)")
            case let other: Issue.record("\(key): \(String(describing: other))")
            }
        }
        #expect(fault(keys: Self.ecPrivate) == .privateKey)
        #expect(fault(keys: Self.rsa, Self.rsa) == .repeatedID)
        #expect(fault(keys: Self.ec.replacing(#""kty""#, with: #""alg":"RS256","kty""#)) == .algorithm)
        #expect(fault(keys: Self.rsa.replacing(#""kty""#, with: #""alg":"ES256","kty""#)) == .algorithm)
    }

    @Test("keys of other types, curves, uses and algorithms are ignored, and a set of nothing else is refused")
    func ignored() throws {
        let others = [
            Self.p384, #"{"kty":"oct","k":"AAAA","alg":"HS256"}"#, #"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, "{}",
            Self.rsa.replacing(#""kty""#, with: #""use":"enc","kty""#),
            Self.rsa.replacing(#""kty""#, with: #""alg":"RSA-OAEP","kty""#),
            Self.rsa.replacing(#""kty""#, with: #""key_ops":["encrypt"],"kty""#),
        ]
        for key in others { #expect(fault(keys: key) == .noKey, "\(key)") }
        let all = (others + [Self.ec]).joined(separator: ",")
        #expect(try JWKSet(Array(#"{"keys":[\#(all)],"more":1}"#.utf8), library).keys.count == 1)
    }

    @Test("other texts, more than 64 keys and more than 64 KiB are no sets")
    func bounds() {
        #expect(fault("") == .json(.malformed))
        #expect(fault("[]") == .json(.notAnObject))
        for text in ["{}", #"{"keys":{}}"#, #"{"keys":[1]}"#, #"{"keys":null}"#] {
            #expect(fault(text) == .malformedSet)
        }
        #expect(fault(#"{"keys":[]}"#) == .noKey)
        #expect(fault(#"{"keys":[],"keys":[]}"#) == .json(.duplicateName))
        for count in [65, 10_000] {
            let keys = [String](repeating: "{}", count: count).joined(separator: ",")
            #expect(fault(#"{"keys":[\#(keys)]}"#) == .json(.tooMany))
        }
        let filler = String(repeating: "x", count: JWKSet.lengthLimit)
        #expect(fault(#"{"keys":[],"x":"\#(filler)"}"#) == .json(.tooLong))
    }

    private static let rsa =
        #"{"kid":"r","kty":"RSA","e":"AQAB","n":"uPgndb8SVJJWLVS60MuVBJsKSpCzT4n0HJnX_QHsL7mI1b0bu7g5iBfNR8neEDLnmprjnXXPPf__k9ootP5nmbSjJHc9Ph0DbUjPABnzCQVPOkzWM5KZmTvtH3AWAIFxfNdwwOsS7xRYSI3YmUWOQUEq2Z8ixc8kyyeVlRcsJSEaFkpmpqetS7pSyzFOdZlDg-oBZmSPAImnppK3i5sol9OslTzlBUy_piKA4Uz2iEBAb_8bsQrDNjdJh1-awdlSPBRVgg1mu7jKCKTiRaN1HCi34Y03UNaiKe3g0KZM698F-i5BPF58jbTZk-w-H9TY0UnyfMG3TCNUpfjJi4RaBQ"}"#
    private static let ec =
        #"{"kid":"e","kty":"EC","crv":"P-256","x":"kWUQVsvA_frLFqZqDkoLQZ5CPGS4Itm80iiLeSLCa1I","y":"HJXdth7DQ8-iICRabDD_E3gtoxNam2UVsxEDSAGfJT4"}"#
    private static let ecPrivate =
        #"{"kid":"e","kty":"EC","crv":"P-256","x":"kWUQVsvA_frLFqZqDkoLQZ5CPGS4Itm80iiLeSLCa1I","y":"HJXdth7DQ8-iICRabDD_E3gtoxNam2UVsxEDSAGfJT4","d":"PDYXQlra9uXek_5z5htoRyeyjfjKDlz3h9ZiLE5t1Ps"}"#
    private static let p384 =
        #"{"kid":"p384","kty":"EC","crv":"P-384","x":"uhzSFqbynxwjNJg-sCWplaEhoGRy9PD1nFWjWVpOUGa3ad972TY9cQr1hPWgKg1Z","y":"JNKD8wgmqvm9ISto6lBQowJQpd67qwcWUFdwQRcrm1HOOUpIQCYDA0DFWFsP1V_w"}"#
    /// 1024 bits.
    private static let weak =
        #"{"kid":"w","kty":"RSA","e":"AQAB","n":"s9tZnvjpvGoZg7yllULfpGtOnU21Hf7XM6SsLvrpc1PEFeomRCNRmFlGS2rlvTrAbq8Vrt61dPP936uYfdK053KX42UbRB7IBPLhUtx537YBWDgd_gl1QmxcgY16CRk9jCj7V-1tTR9lLDrohZyVpisusOMwRzyj6gRStw4ukkk"}"#
    private static let es = #"{"alg": "ES256", "kid": "e"}"#
    private static let esSignature =
        "r_y8g6gzt06uLt0EMlO5w_ExN5ts9Vo-9XUKvyWLJ7ZgXXTQlIsAPr-dM64EMG6vCR-t3mZ5xiG-6O6MJ8bJ7Q"
    private static let rs = #"{"alg": "RS256", "kid": "r"}"#
    private static let rsSignature =
        "H1RLXiNq6pQuqFPFh6FbQUcWAB-SxPji9bpaqHNVT2TpHIR79oRHfKyBU-5MFmUo0pNXnug66vEM13AOrBVLgujQo5CWo3ASwiowAAl09GtGJ2wwvaitNJYvJ1-iRBBWN3KRgAAvvkIlUQM-u2wR7M978lrPPhwpNQadcQvkqAjR-8rbRTt5Lrwjm25I1D8K-pLvcWipWa_UFGG1E5_16HcKK_zjvRSTJ34NcSsDY7K_cbiqEVF2LQiWOXdXSxQRy4ECi4DkJaBbe7ocm8hCGXBvZtjbFzZW4HrzfaDk7huOTEBgGIF7vmXo2tc9D4zqkcoq3O9xltuRoE1wqzUcAA"
    private static let ps = #"{"alg": "PS256", "kid": "r"}"#
    private static let psSignature =
        "htDnx6kOph72-ClbiCrO-Nekg0iMwV3scMY9fgmgMUpe3xTcOlOhebjTmsXa7rrZfbbZ2Gn5hWzkiIwUHHRXRKZdauaqLby6kSxJG_cWWTOtbQY_asZJnqQxAY0C1VfUDEdVq451iMii3P5EsRx2gT78P0mDlZ-9YwvHBbBl2RehjBOf5JbG58aILM4OVXgPVCHoLlON0_xXDs6Exq7RmmMiX0pNI2M6_YOOkx2-SVv50u0T4hgb2sEguIK0MMUkxJfJ4PDpxVZfwsV65EP9N3R5zEtfBZ5Uc05djS2fa3TRlwv4I1tiebuX3SSReDxrp6-1fFKGPv8_4BDlr3xylg"
    private static let unnamed = #"{"alg": "RS256"}"#
    private static let unnamedSignature =
        "Fjwf73zts9ccUzguSScs_-pq6w0uDDA1cdqiCQ77Kx6z0yBIhNWB6TvFBifj43NmhSfVbqJXKcHQ6jXKg7LG5T73c3xNePXdSyZ7LWtoKiace_1hlD-zsSePPF_tsOEvQdBVJ0HYJ-HtGfYEuqBgVa7KqDyZ9qKGRhZzx19BqoOJ55Oe7PoGvNLrykvwegnHl0xu7eQjnHExtfETQTIS05B_L4q6-RS_ZnoFxn0VziQlU5_NmQNAguov73jh5DrxhyduQPAJvP_20-WUwuBEiXR_54uZmLAMTD-u-B_k5_kTY5COfTQLtpyhRNfUSe0KTo7C_4Y_qBQOosID2Op6tw"
    /// A salt of 20 bytes.
    private static let shortSalt =
        "OWEcbWjwu5oQKXmLDEf_v9-IfyI65Zdli9nDlL6oOBTcHvJ_quyQq_cz3EeXqN_NaP2T95kp30vINRqum19b6_PWQ5zvdpGt7B9EMTJCvY78fvvIl3MqqMNI69DWqwELQLNU0bK-MeMQMwUBAg3rG_kJV5PJ0F88m9sBhp5mwzS8UNPCQW6Dzu5nq1Qsm59GB6vnoN34dkQNX4wA_9lNyWauT7G6IMVzXNAasETGFJ7pFwK7Bk0KxDe-NkY-3od3n4xeXnOTGaDuayYRLJZgje6Gf3-Q7QiIawNwC7AorEKZEnUjGAUfcEOf7VEKpEIOcRM6XPHKk4LBxYSq4axCDQ"
    /// MGF1 of SHA-1.
    private static let otherMask =
        "WZRrev7b-cRtp8P4CaYj3GFMdrwuHgh8-WS6A4GePmHz4EG-qCnFfBIfTHhNk0-7-2VWfae5ygWampkBus7gj_EaI_SaR1eiAZtjKFEJmkCb5QRO4mknc1tKDuYNGWvbZ-wxWpj3WaFWWUmAeM-DdlYu4cIYSQnMiFNsu0RV34_6DZLPx9G14gUqT-6471dxJBg62laI30b3PrfMt6YoxMhnqA4JECJwgD4EyAwt5bIgZwynPaYCVW1WQ9JuPt2uVizUTAtzOdbPjyq2Iu9ggXYgL_5IPLkAgk0sb9NmppVwpdUiqp_hmJZ1zsO7vwvqt3K_nIzJTBgBagw-kKvv9A"
    private static let sha1 =
        "qAmqM8Qz1jrxy1bGO9aqhIdG1zvkVwvj8NQBdmlpF75sMCyWuMjSvdzQUzH_YGr3ueFbTfPc4vFXdieh-yVkRqLQMD-Bu1uHitetpm6jBh2i8k12-dqCgMto5GMGQYwu3VANZ2LClNE-Tr50AP_OItz4MXZaky3Dv_K7jG7JVa56eIrBDzapEmuC3BDPP7e0EE5Xgw1ZqtEKq7zSb_7Za6E1MVkX7mPU5_2XODCMAxbAZmRUjaWYx98564Mfh0rj4rX5jZMvCbQ4kDggipp1tSbCwcqSZXNitNcZGwpGpag27BlV8RIZ8SXOkKhAWye77vuAh_mMgl27-UE9qIeX1A"
    /// HMAC-SHA-256 with the PEM text of the RSA key.
    private static let hmac = "crYNDdXHAgvfzcKnYUvsu27x4HHngHfe8_v6N3251nA"
    /// RFC 7515 A.2.1.
    private static let rfcRSA =
        #"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#
    private static let rfcRS256 =
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    /// RFC 7515 A.3.1.
    private static let rfcEC =
        #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#
    private static let rfcES256 =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
}
