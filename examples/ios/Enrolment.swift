import Foundation
import TrustClient

/// What an enrolled phone keeps, in one file.
struct Phone: Codable {
    var record: [UInt8]?
    var keyTag = UUID().uuidString
    /// Set while a rotation is in progress.
    var nextKeyTag: String?
    /// DER, the leaf first.
    var chain: [[UInt8]] = []
    var expiresAt: Int64 = 0
}

/// Enrols, renews and rotates. One per app: two enrolments at a time would spend each other's nonces and keys.
actor Enrolment {
    private let service: EnrolmentServiceAddress
    private let devices: String?
    private let file: URL
    private var phone: Phone
    private var underWay: Task<Phone, any Error>?

    /// - Parameter devices: The URL of the listener for enrolled devices, such as `https://devices.example.org`, if the
    ///   service has one.
    init(service: EnrolmentServiceAddress, devices: String? = nil, file: URL) throws {
        self.service = service
        self.devices = devices
        self.file = file
        do {
            phone = try JSONDecoder().decode(Phone.self, from: Data(contentsOf: file))
        } catch CocoaError.fileReadNoSuchFile {
            // Any other error is thrown: before the first unlock the file exists, but cannot be read.
            phone = Phone()
        }
    }

    /// Enrols the phone, renews its certificate, or rotates the certificate key.
    func enrol(rotating: Bool = false, admissionToken: String? = nil) async throws -> Phone {
        // An actor admits other calls wherever it awaits: they wait for the enrolment in progress.
        while let task = underWay {
            let outcome = await task.result
            if !rotating, admissionToken == nil { return try outcome.get() }
        }
        let task = Task {
            defer { underWay = nil }
            return try await enrolAlone(rotating: rotating, admissionToken: admissionToken)
        }
        underWay = task
        return try await task.value
    }

    private func enrolAlone(rotating: Bool, admissionToken: String?) async throws -> Phone {
        if rotating, phone.nextKeyTag == nil {
            phone.nextKeyTag = UUID().uuidString
            try store()
        }
        let tag = phone.nextKeyTag ?? phone.keyTag
        let client = EnrolmentClient(attestor: AppAttest(), clock: { Int64(Date().timeIntervalSince1970) })
        let hasExpired = phone.expiresAt < Int64(Date().timeIntervalSince1970)
        let sender = try EnrolmentSender(phone: phone)
        let certificate = try await client.enrol(
            phone.record.flatMap { EnrolmentRecord(decoding: $0) } ?? EnrolmentRecord(service: service),
            key: try EnclaveKey(tag: tag), admissionToken: admissionToken,
            devices: hasExpired ? nil : devices,
            newKey: { (key: try await self.replaceKey(), admissionToken: nil) },
            save: { record in try await self.keep(record) },
            send: { request in try await sender.send(request) })
        try ClientIdentity.store(certificate)
        phone.keyTag = phone.nextKeyTag ?? tag
        phone.nextKeyTag = nil
        phone.chain = certificate.chain
        phone.expiresAt = certificate.expiresAt
        try store()
        return phone
    }

    /// The hardware key was lost or refused: the service binds its certificate key to no other.
    private func replaceKey() throws -> EnclaveKey {
        let tag = UUID().uuidString
        phone.nextKeyTag = tag
        try store()
        return try EnclaveKey(tag: tag)
    }

    private func keep(_ record: EnrolmentRecord) throws {
        phone.record = try record.encoded()
        try store()
    }

    private func store() throws {
        try JSONEncoder().encode(phone).write(to: file, options: .atomic)
    }
}

extension URLSession {
    /// `data(for:)` for iOS 14.
    func answer(to request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        try await withCheckedThrowingContinuation { continuation in
            let task = dataTask(with: request) { data, response, error in
                if let data, let response = response as? HTTPURLResponse {
                    continuation.resume(returning: (data, response))
                } else {
                    continuation.resume(throwing: error ?? URLError(.badServerResponse))
                }
            }
            task.resume()
        }
    }
}
