import Cryptography
import DeviceSimulator
import Foundation
import RequestProof
import Testing
import TrustClient
import Vocabulary

@testable import LoadGeneration

@Suite("Simulated devices under load")
struct AttestedDeviceTests {
    private let directory: String
    private let fleet: DeviceFleet
    private let library: LibraryContext
    private let time: Int64 = 1_763_690_000

    init() throws {
        library = try LibraryContext()
        directory = NSTemporaryDirectory() + "/attested-device-" + UUID().uuidString
        let app = try #require(AppID("ABCDE12345.org.example.app"))
        try DeviceFleet.create(directory, appID: app, count: 2, library)
        fleet = try DeviceFleet(opening: directory, first: 2, library)
    }

    private func load(_ proofs: AttestedLoad.Proofs = .live, body: String? = nil) throws -> AttestedLoad {
        try AttestedLoad(fleet, target(), template(body), proofs, library)
    }

    private func target() throws -> LoadURL { try #require(LoadURL("https://localhost:8443/records?a")) }

    private func template(_ body: String?) throws -> RequestTemplate {
        RequestTemplate(try target(), method: body == nil ? .get : .put, body: body.map { Array($0.utf8) })
    }

    /// The next request, as HTTP/1.1 has it.
    private func next(
        _ device: AttestedDevice, now: Int64, body: String? = nil
    ) throws -> (bytes: [UInt8], origin: ProofOrigin) {
        let (proof, origin) = try device.next(now: now)
        return (LoadRequest(template: try template(body), proof: proof).bytes, origin)
    }

    private func answer(_ nonce: String, status: Int = 200) throws -> GatewayAnswer {
        let request = try AcceptSignature(components: Coverage().components(for: []), nonce: Array(nonce.utf8))
        return GatewayAnswer(
            status: status, acceptSignature: [String(decoding: request.fieldValue, as: UTF8.self)], date: nil,
            content: [])
    }

    /// The fields of a request's head by their names.
    private func fields(_ bytes: [UInt8]) throws -> [String: String] {
        let head = try #require(String(decoding: bytes, as: UTF8.self).components(separatedBy: "\r\n\r\n").first)
        let lines = head.components(separatedBy: "\r\n").dropFirst().map { $0.components(separatedBy: ": ") }
        return Dictionary(uniqueKeysWithValues: lines.map { ($0[0], $0[1]) })
    }

    /// The last four bytes of a plain assertion.
    private func counter(_ bytes: [UInt8]) throws -> UInt32 {
        let value = Array(try #require(try fields(bytes)["Signature"]).utf8)
        let assertion = try ProofSignature(parsing: value.span).assertion
        return assertion.suffix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }

    @Test("without a challenge a request is sent without a proof, and the denial brings one")
    func missing() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let device = try load().devices[0]
        let (bytes, origin) = try next(device, now: time)
        #expect(origin == .missing)
        #expect(try fields(bytes)["Signature"] == nil)
    }

    @Test("every request has its own counter, above those of earlier runs")
    func counters() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        var last: UInt32 = 0
        for _ in 0..<2 {
            let device = try load().devices[0]
            try device.note(answer("a"), now: time)
            for _ in 0..<20 {
                let value = try counter(next(device, now: time).bytes)
                #expect(value > last)
                last = value
            }
        }
        #expect(last > 100_000)
    }

    @Test("prepared proofs are used first and in order, then live ones")
    func ahead() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let load = try load(.ahead(6), body: "hello")
        for device in load.devices { try device.note(answer("a"), now: time) }
        try load.prepare(now: time)
        var counters: [UInt32] = []
        var origins: [ProofOrigin] = []
        for _ in 0..<5 {
            let (bytes, origin) = try next(load.devices[1], now: time + 50, body: "hello")
            origins.append(origin)
            counters.append(try counter(bytes))
            #expect(bytes.suffix(5) == Array("hello".utf8))
        }
        #expect(origins == [.ahead, .ahead, .ahead, .live, .live])
        #expect(counters == [1, 2, 3, 4, 5])
    }

    @Test("live proofs use a new challenge at once; only a denial drops prepared proofs")
    func renewed() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func nonce(_ device: AttestedDevice) throws -> String {
            let field = try #require(try fields(next(device, now: time).bytes)["Signature-Input"])
            let bytes = Array(field.utf8)
            let input = try SignatureInput(parsing: bytes.span)
            return String(decoding: input.nonce.indices.map { input.nonce[$0] }, as: UTF8.self)
        }
        let live = try load().devices[0]
        try live.note(answer("a"), now: time)
        #expect(try nonce(live) == "a")
        try live.note(answer("b"), now: time)
        #expect(try nonce(live) == "b")

        let load = try load(.ahead(4))
        let ahead = load.devices[0]
        try ahead.note(answer("a"), now: time)
        try load.prepare(now: time)
        try ahead.note(answer("b"), now: time)
        #expect(try nonce(ahead) == "a")
        try ahead.note(answer("c", status: 401), now: time)
        #expect(try nonce(ahead) == "c")
    }

    @Test("a proof's time is within half a minute of now")
    func created() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let device = try load().devices[0]
        try device.note(answer("a"), now: time)
        for (now, created) in [(time, time), (time + 29, time), (time + 30, time + 30)] {
            let field = try #require(try fields(next(device, now: now).bytes)["Signature-Input"])
            #expect(field.contains(";created=\(created);"))
        }
    }

    @Test("the digest accompanies the content and is covered")
    func content() throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let device = try load(body: "hello").devices[0]
        try device.note(answer("a"), now: time)
        let fields = try fields(next(device, now: time, body: "hello").bytes)
        #expect(fields["Content-Digest"] == "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:")
        #expect(fields["Content-Length"] == "5")
        #expect(try #require(fields["Signature-Input"]).contains(#""content-digest""#))
    }
}
