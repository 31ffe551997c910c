import Crypto
import Foundation

/// What DCAppAttestService.generateAssertion returns: a CBOR map of two byte strings. Extensions (iOS 27) are refused.
struct Assertion {
    let signature: Data
    let authenticatorData: Data

    var rpIDHash: Data { authenticatorData.prefix(32) }
    var counter: UInt32 { authenticatorData.suffix(4).reduce(0) { $0 << 8 | UInt32($1) } }

    /// - Parameter field: the value of Signature.
    init(_ field: String) throws(Refusal) {
        guard field.hasPrefix("attest=:"), field.hasSuffix(":"), field.utf8.count > 9,
            let data = Data(base64Encoded: String(field.dropFirst(8).dropLast()))
        else { throw Refusal("proof_malformed") }
        var rest = data[...]
        guard rest.popFirst() == 0xA2 else { throw Refusal("proof_malformed") }
        var signature: Data?
        var authenticatorData: Data?
        for _ in 0..<2 {
            let name = try Self.string(&rest, kind: 0x60)
            let value = try Self.string(&rest, kind: 0x40)
            if name.elementsEqual("signature".utf8) {
                signature = value
            } else if name.elementsEqual("authenticatorData".utf8) {
                authenticatorData = value
            }
        }
        guard rest.isEmpty, let signature, let authenticatorData, authenticatorData.count == 37 else {
            throw Refusal("proof_malformed")
        }
        self.signature = signature
        self.authenticatorData = authenticatorData
    }

    func verify(_ key: P256.Signing.PublicKey, clientDataHash: SHA256.Digest) throws(Refusal) {
        var hash = SHA256()
        hash.update(data: authenticatorData)
        clientDataHash.withUnsafeBytes { hash.update(bufferPointer: $0) }
        // As data, not as digest: ECDSA hashes what it signs once more.
        let nonce = Data(hash.finalize())
        guard let signature = try? P256.Signing.ECDSASignature(derRepresentation: signature),
            key.isValidSignature(signature, for: nonce)
        else { throw Refusal("proof_invalid") }
    }

    /// The next string, its length in its shortest form.
    private static func string(_ rest: inout Data.SubSequence, kind: UInt8) throws(Refusal) -> Data {
        guard let first = rest.popFirst(), first & 0xE0 == kind else { throw Refusal("proof_malformed") }
        var length = Int(first & 0x1F)
        if length == 24 {
            guard let next = rest.popFirst(), next >= 24 else { throw Refusal("proof_malformed") }
            length = Int(next)
        } else if length == 25 {
            guard let high = rest.popFirst(), let low = rest.popFirst(), high > 0 else {
                throw Refusal("proof_malformed")
            }
            length = Int(high) << 8 | Int(low)
        }
        guard length <= rest.count, first & 0x1F <= 25 else { throw Refusal("proof_malformed") }
        defer { rest = rest.dropFirst(length) }
        return Data(rest.prefix(length))
    }
}
