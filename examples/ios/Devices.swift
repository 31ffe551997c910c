import Foundation
import TrustClient

/// The listener for enrolled devices. Create one after each enrolment.
struct Devices {
    private let client: DeviceClient<AppAttestKey>

    /// - Parameter url: For example `https://devices.example.org`.
    init?(url: String, phone: Phone) throws {
        guard let keyID = phone.record.flatMap({ EnrolmentRecord(decoding: $0) })?.hardwareKeyID else { return nil }
        let sender = try EnrolmentSender(phone: phone)
        guard
            let client = DeviceClient(
                devices: url, key: AppAttestKey(keyID: keyID), clock: { Int64(Date().timeIntervalSince1970) },
                send: { request in try await sender.send(request) })
        else { return nil }
        self.client = client
    }

    /// Shows a new posture, such as once a day.
    func attest() async throws -> AttestedPosture {
        let signals = ["systemVersion": ProcessInfo.processInfo.operatingSystemVersionString]
        return try await client.attest(signals: [UInt8](JSONEncoder().encode(signals)))
    }

    /// Lists the user's other phones.
    func others() async throws -> [DeviceInstance] { try await client.instances().filter { !$0.isCurrent } }

    /// Revokes a lost phone.
    func revoke(_ device: DeviceInstance) async throws { try await client.revoke(device.id) }
}

/// Sends requests of `TrustClient`, with the client certificate where they need it.
struct EnrolmentSender: Sendable {
    /// Nil before the first certificate.
    private let authenticated: URLSession?

    init(phone: Phone) throws {
        authenticated = try phone.chain.first.map { leaf in
            URLSession(
                configuration: .ephemeral, delegate: GatewayDelegate(try ClientIdentity.find(leaf)), delegateQueue: nil)
        }
    }

    func send(_ request: EnrolmentRequest) async throws -> EnrolmentAnswer {
        guard let url = URL(string: request.url),
            let session = request.presentsCertificate ? authenticated : URLSession.shared
        else { throw URLError(.badServerResponse) }
        var message = URLRequest(url: url)
        message.httpMethod = request.method
        message.httpBody = request.content.map { Data($0) }
        for (name, value) in request.fields { message.setValue(value, forHTTPHeaderField: name) }
        let (data, response) = try await session.answer(to: message)
        return EnrolmentAnswer(
            status: response.statusCode, date: response.value(forHTTPHeaderField: "Date"),
            retryAfter: response.value(forHTTPHeaderField: "Retry-After"),
            acceptSignature: response.value(forHTTPHeaderField: "Accept-Signature").map { [$0] } ?? [],
            content: [UInt8](data))
    }
}
