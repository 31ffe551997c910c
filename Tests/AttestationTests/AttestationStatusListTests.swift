import Attestation
import Cryptography
import Encoding
import TestVectors
import Testing

@Suite("Google's list of revoked attestation keys")
struct AttestationStatusListTests {
    private func list(_ text: String) -> Result<AttestationStatusList, StatusListFault> {
        do throws(StatusListFault) {
            return .success(try AttestationStatusList(Array(text.utf8)))
        } catch {
            return .failure(error)
        }
    }

    @Test("every entry is taken, whatever its status, and in lower case")
    func entries() throws {
        let text = """
            {"entries": {"6681152659205225093": {"status": "REVOKED", "reason": "KEY_COMPROMISE"},
             "CC66e9a93713b6e643b26c15879786f7": {"status": "SUSPENDED", "comment": "x", "expires": "2030-01-01"},
             "c0": {"status": "UNKNOWN"}}, "other": [1]}
            """
        let serials = try list(text).get().serials
        #expect(serials == ["6681152659205225093", "cc66e9a93713b6e643b26c15879786f7", "c0"])
        #expect(try list(#"{"entries": {}}"#).get().serials.isEmpty)
    }

    @Test("leading zeros of an entry have no meaning")
    func leadingZeros() throws {
        let list = try list(#"{"entries": {"00aB": {"status": "REVOKED"}, "000": {"status": "REVOKED"}}}"#).get()
        #expect(list.serials == ["ab", "0"])
        for serial in ["ab", "0"] { #expect(list.isRevoked(try #require(AttestationSerial(hexadecimal: serial)))) }
    }

    @Test("a text without entries, or an entry without a status, is no list")
    func malformed() {
        #expect(list("").failure == .malformed(.malformed))
        #expect(list("<html>").failure == .malformed(.malformed))
        #expect(list("[]").failure == .malformed(.notAnObject))
        #expect(list("{}").failure == .entriesMissing)
        #expect(list(#"{"entries": []}"#).failure == .entriesMissing)
        #expect(list(#"{"entries": {"1": {}}}"#).failure == .statusMissing)
        #expect(list(#"{"entries": {"1": {"status": ""}}}"#).failure == .statusMissing)
        #expect(list(#"{"entries": {"1": "REVOKED"}}"#).failure == .statusMissing)
        let twice = #"{"entries": {"1": {"status": "REVOKED"}, "1": {"status": "REVOKED"}}}"#
        #expect(list(twice).failure == .malformed(.duplicateName))
    }

    @Test("length and number of entries are bounded")
    func bounds() {
        func entries(_ count: Int) -> String {
            let members = (0..<count).map { #""\#($0)":{"status":"REVOKED"}"# }.joined(separator: ",")
            return #"{"entries":{\#(members)}}"#
        }
        #expect((try? list(entries(65_536)).get())?.serials.count == 65_536)
        #expect(list(entries(65_537)).failure == .malformed(.tooMany))
        let long = #"{"entries":{}"# + String(repeating: " ", count: AttestationStatusList.longest) + "}"
        #expect(list(long).failure == .malformed(.tooLong))
    }

    @Test("Google's list is read", .enabled(if: SharedVectors.has("android/status-sample-google.json")))
    func genuine() throws {
        let serials = try AttestationStatusList(SharedVectors.bytes("android/status-sample-google.json")).serials
        #expect(serials.count == 5)
        #expect(serials.contains("6681152659205225093") && serials.contains("cc66e9a93713b6e643b26c15879786f7"))
    }
}
