import RequestProof
import Testing

@Suite("Other members of the signature fields")
struct ForeignMembersTests {
    private func foreign(_ line: String) -> String {
        let line = Array(line.utf8)
        var bytes = Array("before ".utf8)
        ForeignMembers.append(of: line.span, to: &bytes)
        return String(decoding: bytes.dropFirst(7), as: UTF8.self)
    }

    @Test("our member is removed, and the others stay unchanged")
    func others() {
        #expect(foreign("attest=:AA==:") == "")
        #expect(foreign("sig1=:AA==:") == "sig1=:AA==:")
        #expect(foreign("a=:AA==:,  attest=:BB==: ,b=:CC==:") == "a=:AA==:, b=:CC==:")
        let input = #"sig=("@method" "x");created=1;keyid="k""#
        #expect(foreign(#"attest=("@path");tag="attestgate-request", "# + input) == input)
        #expect(foreign("attest=:AA==:, attest=:BB==:") == "")
    }

    @Test(
        "a line that is not a dictionary has no members",
        arguments: ["a=:AA==:, ", "=", "a=:AA==:;;", "A=1", "a=\"", "a=1 b"])
    func malformed(_ line: String) {
        #expect(foreign(line) == "")
    }
}
