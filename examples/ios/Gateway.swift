import Foundation
import TrustClient

/// Requests with proofs to one gateway.
struct Gateway {
    private let origin: String
    private let session: URLSession
    private let client: AttestedClient<AppAttestKey>

    /// - Parameter origin: For example `https://api.example.org`.
    init?(origin: String, phone: Phone) throws {
        guard let keyID = phone.record.flatMap({ EnrolmentRecord(decoding: $0) })?.hardwareKeyID,
            let leaf = phone.chain.first
        else { return nil }
        self.origin = origin
        session = URLSession(
            configuration: .ephemeral, delegate: GatewayDelegate(try ClientIdentity.find(leaf)), delegateQueue: nil)
        client = AttestedClient(key: AppAttestKey(keyID: keyID), clock: { Int64(Date().timeIntervalSince1970) })
    }

    /// - Parameter isIdempotent: Whether the service may execute the request twice.
    func post(_ json: Data, to path: String, isIdempotent: Bool = false) async throws -> (Data, HTTPURLResponse) {
        guard let url = URL(string: origin + path), let target = RequestTarget(url: url.absoluteString) else {
            throw URLError(.badServerResponse)
        }
        let request = try AttestedRequest(
            method: "POST", target: target, fields: [("Content-Type", "application/json")],
            content: .bytes([UInt8](json)))
        return try await client.perform(
            request, isIdempotent: isIdempotent,
            fetchChallenge: {
                guard let url = URL(string: origin + ProofSession.challengePath) else {
                    throw URLError(.badServerResponse)
                }
                return try await send(URLRequest(url: url)).answer
            },
            send: { fields in
                var message = URLRequest(url: url)
                message.httpMethod = "POST"
                message.httpBody = json
                message.setValue("application/json", forHTTPHeaderField: "Content-Type")
                for (name, value) in fields.lines { message.setValue(value, forHTTPHeaderField: name) }
                return try await send(message)
            })
    }

    private func send(
        _ message: URLRequest
    ) async throws -> (answer: GatewayAnswer, response: (Data, HTTPURLResponse)) {
        let (data, response) = try await session.answer(to: message)
        let answer = GatewayAnswer(
            status: response.statusCode,
            acceptSignature: response.value(forHTTPHeaderField: "Accept-Signature").map { [$0] } ?? [],
            date: response.value(forHTTPHeaderField: "Date"), content: [UInt8](data))
        return (answer, (data, response))
    }
}
