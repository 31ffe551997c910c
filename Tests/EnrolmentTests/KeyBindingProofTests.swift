import Attestation
import Cryptography
import Enrolment
import Testing

@Suite("The hardware key's proof of a key binding")
struct KeyBindingProofTests {
    private let keys: Keys
    private let draft: KeyBindingDraft

    init() throws {
        keys = try Keys()
        draft = try KeyBindingDraft(keys)
    }

    private func verify(
        _ binding: KeyBinding, _ key: P256SigningKey, app: String = KeyBindingDraft.appID
    ) throws -> Result<VerifiedAssertion, EnrolmentFault> {
        let key = try keys.verification(key)
        let rpIDHash = try keys.hash(Array(app.utf8))
        do throws(EnrolmentFault) {
            return .success(try binding.verifyProof(key: key, rpIDHash: rpIDHash.span, keys.library))
        } catch {
            return .failure(error)
        }
    }

    /// The draft with authenticator data and signature of another kind.
    private func binding(
        counter: UInt8 = 7, clientData: (KeyBinding) -> String = { String(decoding: $0.clientData, as: UTF8.self) }
    ) throws -> KeyBinding {
        var other = draft
        let data = try keys.hash(Array(KeyBindingDraft.appID.utf8)) + [0x40, 0, 0, 0, counter]
        let signed = Array(clientData(try draft.verify().get()).utf8)
        let signature = try keys.sign(authenticatorData: data, clientData: signed, draft.hardwareKey)
        other.claims["hardware_signature"] = quoted(base64URL(signature))
        other.claims["key_attestation"] = quoted(base64URL(data))
        return try other.verify().get()
    }

    @Test("the client data is exactly these bytes")
    func clientData() throws {
        let binding = try draft.verify().get()
        let expected = #"{"nonce":"\#(KeyBindingDraft.nonce)","jwk_thumbprint":"\#(draft.thumbprint)"}"#
        #expect(String(decoding: binding.clientData, as: UTF8.self) == expected)
    }

    @Test("an assertion of the registered key verifies, and its counter is returned")
    func valid() throws {
        #expect(try verify(draft.verify().get(), draft.hardwareKey).get().counter == 7)
        #expect(try verify(binding(counter: 9), draft.hardwareKey).get().counter == 9)
    }

    @Test("another key, app, nonce or thumbprint, and counter 0, are refused")
    func refused() throws {
        let binding = try draft.verify().get()
        #expect(try verify(binding, draft.newKey) == .failure(.assertion(.signatureInvalid)))
        let otherApp = "TEAM123456.com.example.other"
        #expect(try verify(binding, draft.hardwareKey, app: otherApp) == .failure(.assertion(.rpIDMismatch)))
        #expect(
            try verify(self.binding(counter: 0), draft.hardwareKey) == .failure(.assertion(.counterZero)))
        let wrong: [(KeyBinding) -> String] = [
            { #"{"nonce":"x","jwk_thumbprint":"\#($0.thumbprint)"}"# },
            { _ in #"{"nonce":"\#(KeyBindingDraft.nonce)","jwk_thumbprint":"x"}"# },
            { #"{"jwk_thumbprint":"\#($0.thumbprint)","nonce":"\#(KeyBindingDraft.nonce)"}"# },
            { #"{"nonce": "\#(KeyBindingDraft.nonce)", "jwk_thumbprint": "\#($0.thumbprint)"}"# },
        ]
        for clientData in wrong {
            let binding = try self.binding(clientData: clientData)
            #expect(try verify(binding, draft.hardwareKey) == .failure(.assertion(.signatureInvalid)))
        }
    }

    @Test("malformed authenticator data is refused as a malformed assertion is")
    func form() throws {
        var other = draft
        other.claims["key_attestation"] = quoted(base64URL([UInt8](repeating: 0, count: 36)))
        let fault = try verify(other.verify().get(), draft.hardwareKey).failure
        #expect(fault == .assertion(.authenticatorData(.tooShort)))
        #expect(fault?.error == .invalidRequest)
    }
}
