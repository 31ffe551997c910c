import Attestation
import Bytes
import Challenges
import Cryptography
import EventLoop
import Foundation
import TestVectors
import Vocabulary

@testable import Enrolment
@testable import Registry
@testable import RegistrySQLite
@testable import Server

/// The endpoints on a Unix socket without TLS, with their own registry, on the test's loop.
final class TestService {
    let directory: SocketDirectory
    let keys: Keys
    let registry: DeviceRegistry
    let loop: Loop
    var decisions: [String] = []
    private var acceptor: Acceptor?
    /// Google's list, as the service sees it.
    let shared: EnrolmentShared
    private let counts = EnrolmentCounts()
    private var registryRequests: RegistryRequests?

    var metrics: EnrolmentMetrics { counts.current }

    init(_ change: (inout EnrolmentSettings) throws -> Void = { _ in }) throws {
        directory = try SocketDirectory()
        keys = try Keys()
        loop = try Loop()
        registry = try DeviceRegistry.start(path: "\(directory.path)/registry", creating: true) { _ in }
        var settings = try Self.settings(keys.library)
        try change(&settings)
        let registryRequests = try RegistryRequests(
            registry, loop: loop, commandLimit: RegistryLimits.enrolmentCommands)
        self.registryRequests = registryRequests
        shared = EnrolmentShared(counts)
        let rules = try EnrolmentRules(settings, registry.identity, keys.library)
        let audit = EnrolmentAudit { [unowned self] in decisions.append($0.description) }
        let handler = EnrolmentHandler(rules, registry, registryRequests, shared, audit: audit)
        let application = EnrolmentApplication(
            handler: handler, contentLimit: settings.contentLimit,
            rates: AddressLimits.Rates(
                requestsPerMinute: settings.requestsPerMinute, connections: settings.connectionsPerAddress),
            shared: shared, audit: audit)
        let acceptor = Acceptor(loop: loop, settings: settings.server, pool: BufferPool(), application: application)
        acceptor.listen(on: try Socket.listen(on: try SocketAddress(unixPath: directory.socket), isShared: false))
        self.acceptor = acceptor
    }

    deinit {
        acceptor?.drain {}
        acceptor?.abortAll()
        registryRequests = nil
        registry.stop()
    }

    static func settings(_ library: LibraryContext) throws -> EnrolmentSettings {
        let key = try PrivateKey.generateP256(library)
        let issuer = try CertificateIssuer.selfSigned(commonName: "GMS CA", lifetime: 86_400, key: key, library)
        guard let provider = ProviderURL(KeyBindingDraft.provider), let app = AppID(KeyBindingDraft.appID),
            let secret = ChallengeSecret(generation: 1, bytes: [UInt8](repeating: 5, count: 32))
        else { throw EnrolmentStartError("the test's own settings") }
        let attested = AttestedApp(id: KeyBindingDraft.appID, environment: .production)
        return EnrolmentSettings(
            listeners: [], provider: provider,
            apps: [EnrolmentSettings.App(id: app, kind: .apple([attested], maximumRisk: nil), counters: .strict)],
            admission: .open,
            authority: AuthoritySource(certificate: try issuer.certificate.pem(), key: try key.pem(), passphrase: nil),
            secrets: EnrolmentSettings.Secrets(
                current: secret, previous: nil, log: [UInt8](repeating: 6, count: 32),
                subjects: [UInt8](repeating: 7, count: 32)))
    }

    // MARK: - Requests

    struct Answer {
        let status: Int
        let head: String
        let content: String

        var error: String? { content.firstMatch(of: /"error":"([a-z_]+)"/).map { String($0.1) } }

        func has(_ field: String) -> Bool { head.contains("\r\n\(field)\r\n") }
    }

    /// Sends bytes and returns everything received until the service closes.
    func exchange(_ request: String) throws -> Answer {
        let client = try RawClient(loop: loop, socketPath: directory.socket)
        client.send(request)
        guard client.run(), let end = client.received.range(of: "\r\n\r\n") else {
            throw EnrolmentStartError("no complete answer: \(client.received)")
        }
        let head = String(client.received[..<end.lowerBound]) + "\r\n"
        return Answer(
            status: Int(head.dropFirst(9).prefix(3)) ?? 0, head: head,
            content: String(client.received[end.upperBound...]))
    }

    func ask(_ line: String, fields: String = "", content: String? = nil) throws -> Answer {
        var head = "\(line) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(fields)"
        if let content { head += "Content-Length: \(content.utf8.count)\r\n" }
        return try exchange(head + "\r\n" + (content ?? ""))
    }

    func post(_ path: String, _ content: String) throws -> Answer {
        try ask("POST \(path)", fields: "Content-Type: application/json\r\n", content: content)
    }

    func nonce() throws -> String {
        let answer = try ask("GET /nonce")
        guard let nonce = answer.content.firstMatch(of: /^\{"nonce":"([A-Za-z0-9_-]+)"\}$/) else {
            throw EnrolmentStartError("no nonce: \(answer)")
        }
        return String(nonce.1)
    }

    /// Registers a device as if it had been initialized.
    func register(
        _ hardwareKey: P256SigningKey, attestedFor key: KeyID? = nil, environment: AttestationEnvironment = .production
    )
        throws
    {
        let digest = try keys.library.sha256(of: Array("nonce of \(hardwareKey.point)".utf8).span)
        guard let app = AppID(KeyBindingDraft.appID), let point = PublicPoint(hardwareKey.point),
            let keyID = try keys.keyID(hardwareKey.point), let id = Fingerprint(digest.bytes),
            let record = AttestationRecord(digest: id, certificateKey: key)
        else { throw EnrolmentStartError("the test's own device") }
        let reply = try perform(
            .initialize(
                InstanceRegistration(
                    identity: DeviceIdentity(
                        app: app, platform: .iOS, environment: environment, hardwareKey: keyID, point: point),
                    attestation: record, shown: [], nonce: SingleUse(id: id, expiresAt: .max),
                    epoch: registry.identity.epoch)))
        guard case .initialization(.registered) = reply else { throw EnrolmentStartError("not registered: \(reply)") }
    }

    func device(_ hardwareKey: P256SigningKey) throws -> DeviceDetails {
        guard let keyID = try keys.keyID(hardwareKey.point),
            case .device(let details) = try perform(.show(.hardwareKey(keyID)))
        else { throw EnrolmentStartError("no such device") }
        return details
    }

    func perform(_ command: RegistryCommand) throws -> RegistryReply {
        var reply: Result<RegistryReply, StoreError>?
        let client = try RegistryClient(registry, loop: loop) { [loop] event in
            if case .reply(_, let result) = event {
                reply = result
                loop.stop()
            }
        }
        guard client.perform(command, token: 1) else { throw EnrolmentStartError("the registry is busy") }
        while reply == nil { loop.run() }
        guard let reply else { throw EnrolmentStartError("no reply") }
        return try withExtendedLifetime(client) { try reply.get() }
    }

    /// Returns a valid binding with a fresh nonce.
    func draft(
        _ hardwareKey: P256SigningKey, counter: UInt8, newKey: P256SigningKey? = nil, nonce: String? = nil
    ) throws -> KeyBindingDraft {
        try KeyBindingDraft(
            keys, hardwareKey: hardwareKey, newKey: newKey, nonce: try nonce ?? self.nonce(), counter: counter,
            now: WallClock.seconds)
    }

    func bind(_ draft: KeyBindingDraft) throws -> Answer {
        try post("/key-binding", String(decoding: try draft.content(), as: UTF8.self))
    }
}
