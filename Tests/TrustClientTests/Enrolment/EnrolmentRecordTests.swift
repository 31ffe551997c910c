import Testing
import TrustClient
import Vocabulary

@Suite("The enrolment record of an app")
struct EnrolmentRecordTests {
    @Test("a record is read as written")
    func roundTrip() throws {
        let service = try #require(
            EnrolmentServiceAddress(url: "https://a.example:8444/x", provider: "https://b.example"))
        var record = EnrolmentRecord(service: service)
        #expect(EnrolmentRecord(decoding: try record.encoded()) == record)
        let key = Sample.keyID.base64
        for (step, more) in [
            ("key-made", ""), ("attested", #","initialization":"{\"nonce\":\"a\"}""#), ("initialized", ""),
            ("bound", ""),
        ] {
            let text =
                #"{"hardware_key":"\#(key)"\#(more),"provider":"https://b.example","step":"\#(step)","#
                + #""url":"https://a.example:8444/x"}"#
            record = try #require(EnrolmentRecord(decoding: Array(text.utf8)))
            #expect(Sample.text(try record.encoded()) == text)
            #expect(record.hardwareKeyID == Sample.keyID && record.isBound == (step == "bound"))
        }
    }

    @Test("a malformed record is refused")
    func damaged() {
        let whole = #"{"provider":"https://b.example","step":"begun","url":"https://a.example"}"#
        #expect(EnrolmentRecord(decoding: Array(whole.utf8)) != nil)
        for (part, other) in [
            ("begun", "bound"), ("begun", "over"), ("https://a.example", "http://a.example"), ("}", ""),
            ("}", #","hardware_key":"AAAA"}"#), ("}", #","attested_point":"AAAA"}"#),
        ] {
            let text = whole.replacing(part, with: other)
            #expect(EnrolmentRecord(decoding: Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("the URL of a service has one spelling")
    func services() {
        for url in ["https://a", "https://a.example:8444/gms/%7Ex", "https://[::1]:8444/"] {
            #expect(EnrolmentServiceAddress(url: url)?.provider == (url.hasSuffix("/") ? String(url.dropLast()) : url))
        }
        for url in [
            "", "https://", "http://a", "https://a//", "https://a?b", "https://a#b", "https://a/\"", "HTTPS://a",
        ] {
            #expect(EnrolmentServiceAddress(url: url) == nil, "\(url)")
        }
    }
}
