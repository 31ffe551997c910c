import Encoding
import Testing

@testable import Cryptography

/// Requests that Python's cryptography has made, but the last, whose form is that of gematik's app for iOS.
private enum Request {
    static let inSubject = """
        MIHWMH8CAQAwHTEbMBkGCSqGSIb3DQEJBwwMY0dGemMzZHZjbVE9MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEuLJJu/CrVyUN\
        jZIa6yt93amNrYMiDpr1zRQ/WfD5r7wguNdvCt4GNSFPXQ55fCC2IQNTXN+XQS7yFC5c57Ko1aAAMAoGCCqGSM49BAMCA0cAMEQC\
        IGvN/mBcLtFHUWRRKNEJXyoDFs3+wfIxHv0eY6YShzQ9AiAi5qgJ6r0h18g8ZMrjuUI7SCmgdciMUH+A34WI5x79Rg==
        """
    static let inAttribute = """
        MIHnMIGPAgEAMBAxDjAMBgNVBAMMBXBob25lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEuLJJu/CrVyUNjZIa6yt93amNrYMi\
        Dpr1zRQ/WfD5r7wguNdvCt4GNSFPXQ55fCC2IQNTXN+XQS7yFC5c57Ko1aAdMBsGCSqGSIb3DQEJBzEODAxjR0Z6YzNkdmNtUT0w\
        CgYIKoZIzj0EAwIDRwAwRAIgFMg9FLo04EWWcTGXDI7i3qsZuyugwONsP+cFEroARz8CIH85EFtRPCy2H9cGWQSDeA89EM7m3iUl\
        PdYJWt9hME8X
        """
    static let inBoth = """
        MIH1MIGcAgEAMB0xGzAZBgkqhkiG9w0BCQcMDGNHRnpjM2R2Y21RPTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLiySbvwq1cl\
        DY2SGusrfd2pja2DIg6a9c0UP1nw+a+8ILjXbwreBjUhT10OeXwgtiEDU1zfl0Eu8hQuXOeyqNWgHTAbBgkqhkiG9w0BCQcxDgwM\
        Y0dGemMzZHZjbVE9MAoGCCqGSM49BAMCA0gAMEUCIQChGWPodC8/kzpg2tZ/0QWOeLyDN48+uHJKhwEfMTW5vwIganm/nRyuL/4T\
        kVpytThyxQyNs3tk8Vyk5IZhO3NCBfw=
        """
    static let onP384 = """
        MIIBFTCBnAIBADAdMRswGQYJKoZIhvcNAQkHDAxjR0Z6YzNkdmNtUT0wdjAQBgcqhkjOPQIBBgUrgQQAIgNiAAQhyuMkT2702jwH\
        D468li2+dDCiKtSWitnGii9MPNzfKJHL224ClnGdGEZTjkzcX+Gf2GolJ0Yf5MsLLpFxmhns6nDuuSCMDa8+T/euEMCFI+pqp4AH\
        zRy9ndJiA4+DbRigADAKBggqhkjOPQQDAgNoADBlAjEA+2dFGyluKwYdnpVSVkImX/KHev3G5bTp9pdfzLCugfKpBMim4wJu7FN9\
        EZo0WkGVAjA/wVru8Jnp+8UrS0B8ik7R+OArT1iu9ii0+/KCOHLrGVSGcaYPnnQT/PnMbqoPSM0=
        """
    /// Without attributes, r and s without the leading zeros of positive integers, and SHA-256 hashed again.
    static let ofTheApp = """
        MIHUMH0CAQAwHTEbMBkGCSqGSIb3DQEJBwwMY0dGemMzZHZjbVE9MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEuLJJu/CrVyUN\
        jZIa6yt93amNrYMiDpr1zRQ/WfD5r7wguNdvCt4GNSFPXQ55fCC2IQNTXN+XQS7yFC5c57Ko1TAKBggqhkjOPQQDAgNHADBEAiCb\
        nUkHWHnNlhZTpJw3K17JeSZzSc8jX3rCculqPOkONAIg2i9nCHyohXHBTNUGW+tG/9ZnvHJxBlk4z2unig522Gw=
        """
    static let point = """
        BLiySbvwq1clDY2SGusrfd2pja2DIg6a9c0UP1nw+a+8ILjXbwreBjUhT10OeXwgtiEDU1zfl0Eu8hQuXOeyqNU=
        """
}

@Suite("Requests for certificates")
struct CertificationRequestTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func read(_ text: String) throws -> CertificationRequest? {
        CertificationRequest(der: try #require(Base64.decode(text)))
    }

    @Test(
        "key, challenge password and signature are read in every form",
        arguments: [
            Request.inSubject, Request.inAttribute, Request.ofTheApp,
        ])
    func good(_ text: String) throws {
        let request = try #require(try read(text))
        #expect(request.point == Base64.decode(Request.point))
        #expect(request.challengePasswords == [Array("cGFzc3dvcmQ=".utf8)])
        #expect(try request.isSigned(library))
    }

    @Test("two passwords are both found, so that the caller can refuse them")
    func both() throws {
        #expect(try read(Request.inBoth)?.challengePasswords.count == 2)
    }

    @Test("a key on another curve is refused")
    func curve() throws { #expect(try read(Request.onP384) == nil) }

    @Test("no request that was altered in one byte or cut is signed", arguments: [Request.inSubject, Request.ofTheApp])
    func altered(_ text: String) throws {
        let der = try #require(Base64.decode(text))
        for place in der.indices {
            var altered = der
            altered[place] ^= 1
            #expect(try CertificationRequest(der: altered)?.isSigned(library) != true, "byte \(place)")
            #expect(CertificationRequest(der: Array(der[..<place])) == nil)
        }
        #expect(CertificationRequest(der: der + [0]) == nil)
        #expect(CertificationRequest(der: [UInt8](repeating: 0x30, count: 5000)) == nil)
    }
}
