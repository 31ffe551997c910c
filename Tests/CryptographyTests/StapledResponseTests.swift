import Cryptography
import Foundation
import Testing

/// Responses are made by the openssl tool.
@Suite("Stapled OCSP responses")
struct StapledResponseTests {
    private let context: LibraryContext
    private let tool: OpenSSLTool
    private let authority: CertificateIssuer
    private let leaf: Certificate
    private let now = Int64(Date().timeIntervalSince1970)

    init() throws {
        context = try LibraryContext()
        tool = try OpenSSLTool()
        let key = try PrivateKey.generateP256(context)
        authority = try .selfSigned(commonName: "CA", lifetime: 86_400, key: key, context)
        try tool.write(authority.certificate.pem(), to: "ca.pem")
        try tool.write(key.pem(), to: "ca.key")
        leaf = try authority.issue(
            CertificateTemplate(
                purpose: .server(names: ["localhost"]), commonName: "localhost", end: .at(now + 3_600),
                serial: nil),
            for: PrivateKey.generateP256(context).publicKey)
        try tool.write(leaf.pem(), to: "leaf.pem")
    }

    /// Writes the authority's database. State `V` is good, `R` is revoked, and anything else makes the certificate
    /// unknown.
    private func write(state: Character) throws {
        let times = state == "R" ? "R\t391231000000Z\t250101000000Z" : "V\t391231000000Z\t"
        let line = "VR".contains(state) ? "\(times)\t\(leaf.serial)\tunknown\t/CN=localhost\n" : ""
        try tool.write(Array(line.utf8), to: "index.txt")
    }

    private func respond(
        _ state: Character = "V", signer: String = "ca", life: [String] = ["-nmin", "30"], further: [String] = [],
        issuer: String = "ca"
    ) throws -> [UInt8] {
        try write(state: state)
        try tool.run("ocsp", "-issuer", "\(issuer).pem", "-cert", "leaf.pem", "-reqout", "request.der")
        try tool.run(
            [
                "ocsp", "-index", "index.txt", "-CA", "\(issuer).pem", "-rsigner", "\(signer).pem", "-rkey",
                "\(signer).key", "-reqin", "request.der", "-respout", "response.der", "-ignore_err",
            ] + life + further)
        return try tool.read("response.der")
    }

    private func read(
        _ der: [UInt8], above: [Certificate]? = nil, at time: Int64? = nil
    ) throws(CryptographyError) -> StapledResponse {
        try StapledResponse(
            der: der, for: [leaf] + (above ?? [authority.certificate]), at: time ?? now + 5, context)
    }

    private func refusal(
        _ der: [UInt8], above: [Certificate]? = nil, at time: Int64? = nil
    ) -> String {
        do throws(CryptographyError) {
            return "taken: \(try read(der, above: above, at: time))"
        } catch {
            return error.description
        }
    }

    /// Creates a certificate of `issuer` that may or may not sign responses. Writes `NAME.pem` and `NAME.key`.
    private func appoint(_ name: String, issuer: String = "ca", usage: String, digest: String = "sha256") throws {
        try tool.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "\(name).key")
        try tool.run("req", "-new", "-key", "\(name).key", "-subj", "/CN=\(name)", "-out", "\(name).csr")
        try tool.write(Array("extendedKeyUsage=\(usage)\n".utf8), to: "usage.cnf")
        try tool.run(
            "x509", "-req", "-in", "\(name).csr", "-CA", "\(issuer).pem", "-CAkey", "\(issuer).key", "-days", "1",
            "-\(digest)", "-extfile", "usage.cnf", "-out", "\(name).pem")
    }

    private func stranger() throws {
        try tool.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "stranger.key")
        try tool.run(
            "req", "-x509", "-key", "stranger.key", "-subj", "/CN=CA", "-days", "1", "-out", "stranger.pem")
    }

    @Test("a response signed by the issuer is accepted while it is fresh")
    func good() throws {
        let response = try read(respond())
        #expect(response.subject == "CN=localhost")
        #expect(abs(response.thisUpdate - now) < 600)
        // The tool reads the time twice, and a second may pass in between.
        let life = response.nextUpdate - response.thisUpdate
        #expect(life == 1_800 || life == 1_801)
        #expect(response.encoding == (try tool.read("response.der")))
        let times = [(-1, false), (0, true), (life - 1, true), (life, false)]
        for (offset, isFresh) in times { #expect(response.isFresh(at: response.thisUpdate + offset) == isFresh) }
    }

    @Test("a delegated responder may sign a response, but no other certificate of the issuer")
    func appointed() throws {
        try appoint("responder", usage: "OCSPSigning")
        #expect(try read(respond(signer: "responder")).subject == "CN=localhost")
        try appoint("server", usage: "serverAuth")
        #expect(
            refusal(try respond(signer: "server")).contains(
                "is not signed by CN=CA or a responder that it has delegated"))
        try stranger()
        try appoint("impostor", issuer: "stranger", usage: "OCSPSigning")
        #expect(refusal(try respond(signer: "impostor")).contains("is not signed by"))
        #expect(refusal(try respond(signer: "stranger")).contains("is not signed by"))
    }

    @Test("a response with a SHA-1 signature is refused")
    func weak() throws {
        #expect(refusal(try respond(further: ["-rmd", "sha1"])).contains("weaker than SHA-256"))
        try appoint("weakly", usage: "OCSPSigning", digest: "sha1")
        #expect(refusal(try respond(signer: "weakly")).contains("is not signed by"))
    }

    @Test("a response is refused unless it says that the certificate is good")
    func states() throws {
        #expect(refusal(try respond("R")).contains("says that CN=localhost is revoked"))
        #expect(refusal(try respond("?")).contains("does not know CN=localhost"))
    }

    @Test("a response is readable at any time, fresh in its period, and refused without an end")
    func times() throws {
        let der = try respond()
        let response = try read(der)
        for (now, isFresh) in [(response.thisUpdate - 1, false), (response.thisUpdate, true)]
            + [(response.nextUpdate - 1, true), (response.nextUpdate, false)]
        {
            #expect(try read(der, at: now).isFresh(at: now) == isFresh)
        }
        #expect(refusal(try respond(life: [])).contains("no validity period"))
    }

    @Test("a response for another certificate, or of an issuer with the same name, is refused")
    func others() throws {
        let der = try respond()
        let other = try authority.issue(
            CertificateTemplate(
                purpose: .server(names: ["other"]), commonName: "other", end: .at(now + 3_600),
                serial: nil),
            for: PrivateKey.generateP256(context).publicKey)
        let error = #expect(throws: CryptographyError.self) {
            try StapledResponse(der: der, for: [other, authority.certificate], at: now + 5, context)
        }
        #expect(error?.description.contains("not about CN=other") == true)
        try stranger()
        #expect(refusal(try respond(signer: "stranger", issuer: "stranger")).contains("not about CN=localhost"))
    }

    @Test("a response is refused without the issuer's certificate behind the leaf")
    func withoutIssuer() throws {
        let der = try respond()
        try stranger()
        let namesake = try Certificate.all(inPEM: tool.read("stranger.pem"), context)
        for above in [[], namesake] {
            #expect(refusal(der, above: above).contains("does not follow it"))
        }
        #expect(try read(der, above: namesake + [authority.certificate]).subject == "CN=localhost")
    }

    @Test("an error, other content, or more than one response is refused")
    func rubbish() throws {
        // OCSPResponse ::= SEQUENCE { responseStatus ENUMERATED }: tryLater is 3 (RFC 6960 section 4.2.1).
        #expect(refusal([0x30, 0x03, 0x0a, 0x01, 0x03]).contains("an error response, trylater"))
        let der = try respond()
        #expect(refusal(der + [0]).contains("bytes follow it"))
        for length in [0, 1, der.count - 1] { #expect(refusal(Array(der.prefix(length))).contains("must be DER")) }
        #expect(refusal(try leaf.pem()).contains("must be DER"))
        #expect(refusal([UInt8](repeating: 0x30, count: StapledResponse.longest + 1)).contains("more than"))
    }

    @Test("a response with any byte changed is refused")
    func alteration() throws {
        let der = try respond()
        var survivors: [Int] = []
        for index in der.indices {
            var altered = der
            altered[index] ^= 1
            if (try? read(altered)) != nil { survivors.append(index) }
        }
        // The certificates in the response are not signed. They are not needed: here it is the issuer's own.
        let signed = try tool.run("ocsp", "-respin", "response.der", "-noverify", "-resp_text")
        #expect(signed.contains("OCSP Response Status: successful"))
        let certificate = try authority.certificate.der()
        let start = der.count - certificate.count
        #expect(survivors.allSatisfy { $0 >= start }, "\(survivors), the certificate begins at \(start)")
    }

    @Test("only certificates with the TLS feature status_request require a response")
    func mustStaple() throws {
        #expect(!leaf.demandsStaple)
        let features = [("status_request", true), ("status_request_v2", false), ("17,5", true), ("1,2", false)]
        for (feature, demands) in features {
            try tool.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "must.key")
            try tool.run(
                "req", "-x509", "-key", "must.key", "-subj", "/CN=must", "-out", "must.pem", "-addext",
                "tlsfeature=\(feature)")
            let certificate = try #require(try Certificate.all(inPEM: tool.read("must.pem"), context).first)
            #expect(certificate.demandsStaple == demands, "\(feature)")
        }
    }
}
