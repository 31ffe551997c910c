import RequestProof
import TrustClient
import Vocabulary

/// Ordinary values of a client.
enum Sample {
    static let keyID: KeyID = {
        let bytes = [UInt8](repeating: 7, count: 32)
        guard let keyID = KeyID(digest: bytes.span) else { preconditionFailure("32 bytes are a key id") }
        return keyID
    }()

    static func target(_ url: String = "https://records.example:8443/patients/1?view=full") -> RequestTarget {
        guard let target = RequestTarget(url: url) else { preconditionFailure("no target: \(url)") }
        return target
    }

    /// The value of Accept-Signature with this challenge.
    static func acceptSignature(_ nonce: String, extra: String = "", parameters: String = "") -> String {
        #"attest=("@method" "@authority" "@path" "@query"\#(extra));created;nonce="\#(nonce)"\#(parameters);"#
            + #"tag="attestgate-request""#
    }

    static func challenge(_ nonce: String, extra: String = "", receivedAt: Int64 = 0) throws -> ReceivedChallenge {
        let text = Array(acceptSignature(nonce, extra: extra).utf8)
        return ReceivedChallenge(try AcceptSignature(parsing: text.span), receivedAt: receivedAt)
    }

    static func answer(
        _ status: Int, _ denial: String? = nil, challenge: String? = nil, date: String? = nil
    ) -> GatewayAnswer {
        let content = denial.map { #"{"error":"\#($0)","error_description":"...","trace_id":"1"}"# } ?? ""
        return GatewayAnswer(
            status: status, acceptSignature: challenge.map { [acceptSignature($0)] } ?? [], date: date,
            content: Array(content.utf8))
    }

    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
