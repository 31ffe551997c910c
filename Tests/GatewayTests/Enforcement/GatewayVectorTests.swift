import Attestation
import Cryptography
import HTTP
import RequestProof
import TestVectors
import Testing
import Vocabulary

@testable import Gateway
@testable import Registry

@Suite("The gateway judges the requests of docs/vectors")
struct GatewayVectorTests {
    @Test("each gets its verdict", arguments: ["ios", "android"])
    func verdicts(_ platform: String) throws {
        let vectors = try ProofVectors.read(platform)
        let gateway = try VectorGateway(vectors)
        var verdicts: Set<String> = []
        for request in vectors.requests {
            #expect(try gateway.verdict(on: request) == request.verdict, "\(request.name)")
            verdicts.insert(request.verdict)
        }
        #expect(verdicts.count >= 8)
    }
}

/// The gateway of the vectors, with the device that has their key.
private struct VectorGateway {
    private let library: LibraryContext
    private let verifier: ProofVerifier
    private let app: AdmittedApp
    private let device: DeviceSnapshot
    private let time: Int64

    init(_ vectors: ProofVectors) throws {
        library = try LibraryContext()
        let secrets = try GatewaySecrets(
            parsing: "challenge 1 \(vectors.gateway.challengeSecret)\npseudonyms \(vectors.gateway.challengeSecret)\n")
        let store = try #require(RandomID(hex(vectors.gateway.store)))
        let epoch = try #require(RandomID(hex(vectors.gateway.epoch)))
        let challenges = try RequestChallenges(
            secrets, StoreIdentity(store: store, epoch: epoch), life: 300, library, isCurrent: { _ in true })
        verifier = ProofVerifier(challenges, maxAge: 300, keyLimit: 8, library)
        let id = try #require(AppID(vectors.app))
        let name = Array(vectors.app.utf8)
        app = AdmittedApp(
            id: name, isAndroid: id.isAndroid, environment: .production, counters: .strict,
            rpIDHash: try library.sha256(of: name.span), extensions: AppExtensionPolicy(), maximumRisk: nil)
        let point = hex(vectors.key.point)
        let digest = try library.sha256(of: point.span)
        let named = KeyID(digest: digest.span)
        let keyID = try #require(named)
        device = DeviceSnapshot(
            id: try #require(DeviceID(1)), binding: keyID, app: AppNumber(number: 0),
            platform: id.isAndroid ? .android : .iOS, environment: .production, hardwareKey: keyID,
            point: try #require(PublicPoint(point)), standing: .active, shown: [], riskMetric: nil, systemVersion: nil,
            slot: 0)
        time = vectors.gateway.time
    }

    /// Returns `verified` or the code of the denial.
    func verdict(on request: ProofVectors.Request) throws -> String {
        let content = Array(request.content.utf8)
        let bytes = try head(of: request, contentLength: content.count)
        var parser = RequestHeadParser(
            limits: HeadLimits(bytes: 16_384, target: 8_192, fields: 100, targetForms: .common))
        var head = RequestHead()
        _ = try parser.parse(bytes.span, into: &head)
        let verdict = verifier.verify(head, bytes.span, by: device, of: app, covering: Coverage(), now: time)
        switch verdict {
        case .refused(let refusal): return String(describing: refusal.denial.row.code)
        case .verified(let proof):
            #expect(proof.counter == request.counter, "\(request.name)")
            let hash = try library.sha256(of: content.span).bytes
            let isMatch = proof.contentDigest?.matches { $0 == .sha256 ? hash : [] } ?? content.isEmpty
            return isMatch ? "verified" : String(describing: Denial.bodyDigestMismatch.row.code)
        }
    }

    private func head(of request: ProofVectors.Request, contentLength: Int) throws -> [UInt8] {
        let parts = request.url.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
        let rest = parts[2].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        var text = "\(request.method) /\(rest[1]) HTTP/1.1\r\nHost: \(rest[0])\r\n"
        for line in request.fields + request.proof { text += "\(line[0]): \(line[1])\r\n" }
        if contentLength > 0 { text += "Content-Length: \(contentLength)\r\n" }
        return Array((text + "\r\n").utf8)
    }
}
