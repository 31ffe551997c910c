import Testing

@testable import Federation

@Suite("Forms and credentials of the federation")
struct FederationFormTests {
    private func read(_ text: String) throws -> FederationForm { try FederationForm(Array(text.utf8)) }

    @Test("percent encodings and plus signs are decoded, and empty values are missing")
    func decoded() throws {
        let form = try read("scope=a+b%20c&grant_type=urn%3Aietf&empty=&=&%C3%A4=1")
        #expect(form["scope"] == "a b c")
        #expect(form["grant_type"] == "urn:ietf")
        #expect(form["empty"] == nil)
        #expect(form["\u{e4}"] == "1")
        #expect(throws: FederationFault.self) { try form.required("empty") }
    }

    @Test("what is no form is refused", arguments: ["a=%", "a=%4", "a=%zz", "a=%ff", "a=1&a=2", "a=1&%61=2"])
    func refused(text: String) {
        #expect(throws: FederationFault.self) { try read(text) }
    }

    @Test("credentials come from one place")
    func credentials() throws {
        let form = try read("client_id=a&client_secret=b")
        #expect(try Credentials(nil, nil).map { _ in true } == nil)
        let posted = try #require(try Credentials(nil, form))
        #expect(posted.id == "a" && posted.secret == "b")
        let basic = try #require(try Credentials("basic YSUzQWI6Yw==", nil))
        #expect(basic.id == "a:b" && basic.secret == "c")
        let bearer = try #require(try Credentials("Bearer t", nil))
        #expect(bearer.id == nil && bearer.secret == "t")
        #expect(throws: FederationFault.self) { try Credentials("Bearer t", form) }
        for text in ["Bearer", "Basic", "Basic ????", "Basic YQ==", "Digest a"] {
            #expect(throws: FederationFault.self) { try Credentials(text, nil) }
        }
    }
}
