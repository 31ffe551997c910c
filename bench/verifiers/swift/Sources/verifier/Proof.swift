import Crypto
import Foundation
import HTTPTypes

/// The request that nginx asks about.
struct Question {
    let method: String
    let authority: String
    let target: String
    let fields: HTTPFields
}

/// Says whether a request's proof is good: all but the counter, which has to be spent besides. Written from docs/protocol.md, as
/// somebody would who builds the checks into a service of their own.
struct Proof {
    let counter: UInt32
    /// When its challenge was issued.
    let issued: Int64

    private static let life: Int64 = 300
    private static let ifPresent: [HTTPField.Name] = [.authorization, .contentType, .contentEncoding]

    init(of question: Question, by device: Device, _ challenges: Challenges, now: Int64) throws(Refusal) {
        guard let said = question.fields[.signatureInput], let signed = question.fields[.signature] else {
            throw Refusal("proof_required")
        }
        let input = try SignatureInput(said)
        guard input.keyID == device.keyID else { throw Refusal("device_mismatch", status: 403) }
        issued = try challenges.issued(input.nonce, now: now)
        guard (now - Self.life...now + Challenges.tolerance).contains(input.created),
            input.created >= issued - Challenges.tolerance, input.expires.map({ now < $0 }) ?? true
        else { throw Refusal("proof_stale") }
        let base = try Self.base(question, input)
        let assertion = try Assertion(signed)
        guard assertion.rpIDHash == device.appHash else { throw Refusal("app_refused", status: 403) }
        try assertion.verify(device.key, clientDataHash: SHA256.hash(data: Data(base.utf8)))
        counter = assertion.counter
    }

    /// RFC 9421 section 2.5.
    private static func base(_ question: Question, _ input: SignatureInput) throws(Refusal) -> String {
        let mark = question.target.firstIndex(of: "?")
        let path = question.target[..<(mark ?? question.target.endIndex)]
        let query = mark.map { question.target[$0...] } ?? "?"
        guard mark == nil || query != "?" else { throw Refusal("proof_malformed") }
        for name in ["@method", "@authority", "@path", "@query"] where !input.components.contains(name) {
            throw Refusal("proof_incomplete")
        }
        for name in ifPresent where question.fields.contains(name) && !input.components.contains(name.canonicalName) {
            throw Refusal("proof_incomplete")
        }
        var base = ""
        base.reserveCapacity(1024)
        for name in input.components {
            base += "\"\(name)\": "
            switch name {
            case "@method": base += question.method
            case "@authority": base += authority(question.authority)
            case "@path": base += path.isEmpty ? "/" : path
            case "@query": base += query
            default:
                guard name == name.lowercased(), let fieldName = HTTPField.Name(name),
                    let value = question.fields[fieldName]
                else { throw Refusal("proof_malformed") }
                base += value
            }
            base += "\n"
        }
        return base + "\"@signature-params\": \(input.parameters)"
    }

    private static func authority(_ host: String) -> String {
        let host = host.lowercased()
        return host.hasSuffix(":443") ? String(host.dropLast(4)) : host
    }
}
