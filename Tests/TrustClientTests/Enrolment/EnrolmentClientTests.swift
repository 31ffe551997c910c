import Foundation
import Testing
@testable import TrustClient
import Vocabulary

@Suite("Enrolment of an app")
struct EnrolmentClientTests {
    private struct Platform: Attestor {
        var attesting: AttestorFault?
        func generateKey() async throws -> KeyID { Sample.keyID }
        func attestation(of keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
            if let attesting { throw attesting }
            return [1]
        }
        func assertion(by keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
            [0xa2, 0x69] + Array("signature".utf8) + [0x41, 1, 0x71] + Array("authenticatorData".utf8) + [0x41, 2]
        }
    }

    private struct Key: CertificateKey {
        let point = [UInt8(4)] + [UInt8](repeating: 9, count: 64)
        func signature(over message: [UInt8]) async throws -> [UInt8] { [0x30, 6, 2, 1, 1, 2, 1, 2] }
    }

    /// A service that records the order of saving and sending.
    private actor Peer {
        private(set) var events: [String] = []
        private(set) var requests: [EnrolmentRequest] = []
        private let isLost: Bool
        init(isLost: Bool = false) { self.isLost = isLost }

        func save(_ record: EnrolmentRecord) {
            events.append("\(record.step)".prefix { $0 != "(" }.description)
        }

        func answer(_ request: EnrolmentRequest) throws -> EnrolmentAnswer {
            events.append(request.endpoint.rawValue)
            requests.append(request)
            let date = "Sun, 20 Sep 2026 10:13:20 GMT"
            switch request.endpoint {
            case .nonce:
                return EnrolmentAnswer(
                    status: 200, date: date, content: Array(#"{"nonce":"EBESExQVFhcYGRobHB0eHw"}"#.utf8))
            case .initialization:
                if isLost { throw CancellationError() }
                return EnrolmentAnswer(status: 204, date: date, content: [])
            case .keyBinding:
                let leaf = Data([0x30] + Key().point).base64EncodedString()
                return EnrolmentAnswer(
                    status: 200, date: date,
                    content: Array(#"{"certificate_chain":["\#(leaf)"],"expires_at":1}"#.utf8))
            case .challenge, .attestation, .instances, .revocation: throw CancellationError()
            }
        }
    }

    private func enrol(
        _ platform: Platform, _ peer: Peer, _ step: EnrolmentRecord.Step = .begun, devices: String? = nil
    ) async throws -> EnrolledCertificate {
        let service = try #require(EnrolmentServiceAddress(url: "https://enrol.example.org"))
        var record = EnrolmentRecord(service: service)
        record.step = step
        return try await EnrolmentClient(attestor: platform, clock: { 1_790_000_000 }).enrol(
            record, key: Key(), devices: devices, newKey: { throw CancellationError() },
            save: { await peer.save($0) },
            send: { try await peer.answer($0) })
    }

    @Test("each step is stored before the next request is sent")
    func order() async throws {
        let peer = Peer()
        #expect(try await enrol(Platform(), peer).expiresAt == 1)
        #expect(
            await peer.events == [
                "keyMade", "nonce", "attested", "instance-initialization", "initialized", "nonce", "key-binding",
                "bound",
            ])
    }

    @Test("a phone enrols without a certificate, and renews at the listener for enrolled devices with it")
    func renewal() async throws {
        let devices = "https://devices.example.org"
        for (step, url) in [
            (EnrolmentRecord.Step.begun, "https://enrol.example.org"),
            (.initialized(Sample.keyID), "https://enrol.example.org"), (.bound(Sample.keyID), devices),
        ] {
            let peer = Peer()
            #expect(try await enrol(Platform(), peer, step, devices: devices).expiresAt == 1)
            let requests = await peer.requests
            #expect(requests.allSatisfy { $0.url.hasPrefix(url) && $0.presentsCertificate == (url == devices) })
            #expect(requests.map(\.method).suffix(2) == ["GET", "POST"])
            #expect(requests.last?.fields.map(\.value) == ["application/json"])
        }
    }

    @Test("without an answer the caller's error is passed on, and the last step is stored")
    func lost() async throws {
        let peer = Peer(isLost: true)
        await #expect(throws: CancellationError.self) { try await enrol(Platform(), peer) }
        #expect(await peer.events.suffix(2) == ["attested", "instance-initialization"])
    }

    @Test("a platform error is returned as the failure", arguments: AttestorFault.allCases)
    func faults(_ fault: AttestorFault) async throws {
        await #expect(throws: EnrolmentFailure.attestor(fault)) {
            try await enrol(Platform(attesting: fault), Peer())
        }
    }
}
