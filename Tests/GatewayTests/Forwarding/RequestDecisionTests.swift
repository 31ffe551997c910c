import Bytes
import Cryptography
import DeviceSimulator
import EventLoop
import Policy
import RegistryMemory
import RequestProof
import TLS
import Telemetry
import Testing
import TrustClient
import Upstream
import Vocabulary

@testable import Attestation
@testable import Gateway
@testable import HTTP
@testable import Registry

/// The life of a request without sockets, with the store in memory: every denial that a decision can produce.
@Suite("The decision about a request", .timeLimit(.minutes(1)))
struct RequestDecisionTests {
    /// The platforms that prove requests in different ways.
    static let platforms = [Platform.iOS, .android]

    /// A reason for a denial, in the order in which a request meets the checks.
    enum Fault: Int, CaseIterable, CustomTestStringConvertible {
        case source
        case stranger
        case otherHost, otherPort, overridingField, hostUnknown, pathUnknown, method, fieldName, target, anonymous
        case declaredLength
        case webSocketMalformed, webSocketVersion
        case storeSilent, keyUnknown, revoked, bindingEnded, risky, oldSystem, otherEnvironment, otherApp
        case deviceRate
        case lacking
        case tokenAbsent, tokenInvalid
        case queueFull
        case noProof, malformedProof, otherKeyID, otherPlatform, unknownAlgorithm, challengeForeign, old, incomplete
        case counterUncovered, counterAbsent, counterMalformed, signatureLength
        case signatureInvalid, category
        case upstreamBusy, tunnels, deviceTunnels, deviceRequests
        case routeRate
        case pointDenies, pointSilent
        case contentLength, contentStale, digest
        case replayed, late, epochChanged, storeLost, deviceGone

        var denial: Denial {
            switch self {
            case .source, .deviceRate, .routeRate: .rateLimited
            case .otherHost, .otherPort: .misdirected
            case .overridingField: .headerRefused
            case .hostUnknown, .pathUnknown: .routeUnknown
            case .method: .methodRefused
            case .fieldName: .headerRefused
            case .anonymous: .certificateAbsent
            case .declaredLength, .contentLength: .contentTooLarge
            case .target, .webSocketMalformed: .requestMalformed
            case .webSocketVersion: .webSocketVersion
            case .storeSilent, .storeLost: .storeUnavailable
            case .stranger, .keyUnknown, .deviceGone: .deviceUnknown
            case .revoked: .deviceRevoked
            case .bindingEnded, .otherKeyID: .deviceMismatch
            case .risky: .deviceRisky
            case .oldSystem: .osOutdated
            case .lacking, .pointDenies: .policyDenied
            case .pointSilent: .policyUnavailable
            case .tokenAbsent: .deviceTokenRequired
            case .tokenInvalid: .deviceTokenInvalid
            case .otherEnvironment, .otherApp, .category, .otherPlatform: .appRefused
            case .queueFull: .overloaded
            case .noProof: .proofRequired
            case .malformedProof, .unknownAlgorithm, .counterMalformed, .signatureLength: .proofMalformed
            case .challengeForeign, .epochChanged: .challengeRequired
            case .old, .contentStale: .proofStale
            case .incomplete, .counterUncovered, .counterAbsent: .proofIncomplete
            case .signatureInvalid: .proofInvalid
            case .upstreamBusy: .upstreamBusy
            case .tunnels: .tunnelLimit
            case .deviceTunnels: .deviceTunnelLimit
            case .deviceRequests: .deviceRequestLimit
            case .digest: .bodyDigestMismatch
            case .replayed: .counterReplayed
            case .late: .counterLate
            }
        }

        var testDescription: String { "\(self)" }

        /// Whether requests of a platform can have the fault. Only Android states its counter in a field, and only
        /// Apple's assertions contain extensions.
        func occurs(on platform: Platform) -> Bool {
            switch self {
            case .counterUncovered, .counterAbsent, .counterMalformed: platform == .android
            case .category, .oldSystem: platform != .android
            default: true
            }
        }

        static func all(on platform: Platform) -> [Fault] { allCases.filter { $0.occurs(on: platform) } }

        /// Faults that exclude each other share a number: they are values of one thing.
        var place: Int {
            switch self {
            case .otherHost, .otherPort, .hostUnknown: 0
            case .pathUnknown, .method, .declaredLength, .webSocketMalformed, .webSocketVersion: 1
            case .anonymous, .storeSilent, .keyUnknown, .stranger, .revoked, .bindingEnded, .risky, .oldSystem,
                .otherEnvironment,
                .otherApp:
                2
            case .pointDenies, .pointSilent: 7
            case .tokenAbsent, .tokenInvalid: 8
            case .noProof, .malformedProof: 3
            case .counterUncovered, .counterAbsent, .counterMalformed: 6
            case .upstreamBusy, .tunnels, .deviceTunnels, .deviceRequests: 4
            case .replayed, .late, .epochChanged, .storeLost, .deviceGone: 5
            default: 100 + rawValue
            }
        }
    }

    @Test("without a fault a proven request is forwarded, and its counter is spent then", arguments: platforms)
    func forwarded(_ platform: Platform) throws {
        let world = try World(platform)
        #expect(try world.decide([]) == nil)
        #expect(world.spent == 1)
    }

    @Test("each fault has its denial, spends no counter, and is met before every later one", arguments: platforms)
    func table(_ platform: Platform) throws {
        let world = try World(platform)
        let faults = Fault.all(on: platform)
        for fault in faults {
            let before = world.spent
            #expect(try world.decide([fault]) == fault.denial, "\(fault)")
            let later = faults.filter { $0.rawValue > fault.rawValue && $0.place != fault.place }
            for other in later.prefix(3) + later.suffix(1) {
                #expect(try world.decide([fault, other]) == fault.denial, "\(fault) before \(other)")
            }
            #expect(world.spent == before, "\(fault) has spent a counter")
        }
    }

    @Test(
        "a route that observes forwards what only an observable denial is against, without identity",
        arguments: platforms)
    func observed(_ platform: Platform) throws {
        let world = try World(platform, enforcedPercent: 0)
        #expect(try world.decide([]) == nil && world.observed == nil && world.spent == 1)
        for fault in Fault.all(on: platform) {
            let before = world.spent
            // What strangers send is looked at only if a device vouches for them.
            let passes = fault.denial.isObservable && fault != .stranger
            #expect(try world.decide([fault]) == (passes ? nil : fault.denial), "\(fault)")
            #expect(world.observed == (passes ? fault.denial : nil), "\(fault)")
            #expect(world.isIdentified == false, "\(fault) reaches the service with an identity")
            #expect(world.spent == before, "\(fault) has spent a counter")
        }
    }

    @Test("a self-signed certificate whose device the registry no longer knows does not pass")
    func observedStranger() throws {
        let world = try World(.iOS, enforcedPercent: 0)
        world.isSelfSigned = true
        #expect(try world.decide([]) == nil)
        #expect(try world.decide([.noProof]) == nil && world.observed == .proofRequired)
        #expect(try world.decide([.deviceGone]) == .deviceUnknown && world.observed == nil)
        world.isSelfSigned = false
        #expect(try world.decide([.deviceGone]) == nil && world.observed == .deviceUnknown)
    }

    @Test("the first denial is recorded, and limits hold for those that pass", arguments: platforms)
    func observedTwice(_ platform: Platform) throws {
        let world = try World(platform, enforcedPercent: 0)
        for (faults, denial, observed) in [
            ([Fault.keyUnknown, .noProof], nil, Denial.deviceUnknown),
            ([.otherApp, .signatureInvalid, .digest], nil, .appRefused),
            ([.noProof, .digest, .replayed], nil, .proofRequired),
            ([.contentStale, .digest], nil, .proofStale), ([.otherApp, .deviceRate], .rateLimited, nil),
            ([.noProof, .routeRate], .rateLimited, .proofRequired),
            ([.noProof, .upstreamBusy], .upstreamBusy, .proofRequired),
        ] as [(Set<Fault>, Denial?, Denial?)] {
            #expect(try world.decide(faults) == denial, "\(faults)")
            #expect(world.observed == observed, "\(faults)")
        }
    }

    @Test("a share of devices is enforced, by the hardware key or the certificate's", arguments: platforms)
    func enforcedShare(_ platform: Platform) throws {
        let world = try World(platform, enforcedPercent: 50)
        var denied = 0
        for _ in 0..<64 {
            // Without a device, the certificate's key decides.
            world.certificateKey = world.randomKey()
            let denial = try world.decide([.keyUnknown])
            #expect(denial == nil || denial == .deviceUnknown)
            // The choice is stable.
            #expect(try world.decide([.keyUnknown]) == denial)
            // A device is enforced if its certificate's key alone was: enrolment ends nothing.
            if denial != nil {
                denied += 1
                #expect(try world.decide([.noProof]) == .proofRequired)
            }
        }
        #expect((1...63).contains(denied))
    }

    @Test("every spelling of a counter but one is malformed, and so is a second line")
    func counterSpellings() throws {
        let world = try World(.android)
        for text in ["0", "01", "+7", "-7", "7.0", "4294967296", "", "7, 8", "7\r\nAttest-Proof-Counter: 7"] {
            world.counterText = text
            #expect(try world.decide([]) == .proofMalformed, "\(text)")
        }
        world.counterText = nil
        // The next one is the highest.
        world.counter = .max - 1
        #expect(try world.decide([]) == nil)
        #expect(world.spent == 1)
    }

    @Test("the registered device decides how a proof is verified, not the request", arguments: platforms)
    func registeredPlatform(_ platform: Platform) throws {
        let world = try World(platform)
        world.signsLike = platform == .iOS ? .android : .iOS
        #expect(try world.decide([]) == .proofMalformed)
        // Whatever `alg` states, a signature is no assertion, and an assertion comes without a counter.
        world.statesRegisteredAlgorithm = true
        #expect(try world.decide([]) == (platform == .iOS ? .proofMalformed : .proofIncomplete))
        #expect(world.spent == 0)
    }

    @Test("the denials ask an Android device for its counter, and an iPhone for none", arguments: platforms)
    func acceptSignature(_ platform: Platform) throws {
        let request = try World(platform).asked()
        #expect(request.algorithm == (platform == .android ? .ecdsaP256SHA256 : nil))
        #expect(request.components.map(\.description).contains("attest-proof-counter") == (platform == .android))
    }

    @Test("the table has every denial of a request's own faults", arguments: platforms)
    func complete(_ platform: Platform) {
        let others: Set<Denial> = [
            // Before there is a request.
            .peerRefused, .proxyHeaderRefused, .certificateRequired, .certificateUnknownAuthority, .certificateExpired,
            .certificateUnsuitable, .certificateRevoked, .crlStale, .certificateNotPinned, .deviceRevokedInHandshake,
            .bindingEndedInHandshake, .handshakeFailed, .handshakeTimeout, .connectionLimit, .protocolBroken,
            .protocolAbused, .targetTooLong, .headTooLarge, .requestTimeout, .certificateInvalid,
            // After the decision.
            .upstreamUnavailable, .upstreamTimeout, .responseNotTaken,
            // Of routes without devices.
            .attestationChallengeRequired, .attestationStale, .attestationInvalid,
            // A fault of the gateway itself.
            .internalError,
        ]
        let absent: Set<Denial> = platform == .android ? [.osOutdated] : []
        #expect(
            Set(Fault.all(on: platform).map(\.denial)) == Set(Denial.allCases).subtracting(others).subtracting(absent))
    }

    @Test("a counter whose commit fails is not forwarded, and stays spent")
    func commitFails() throws {
        let decision = RequestDecision()
        for (outcome, denial) in [
            (CounterOutcome.storeUnavailable, Denial.storeUnavailable), (.unknown, .deviceUnknown),
            (.bindingEnded, .deviceMismatch), (.deviceRevoked, .deviceRevoked), (.extensionWithheld, .appRefused),
        ] {
            guard case .refuse(let refusal) = decision.counter(outcome) else {
                Issue.record("forwarded after \(outcome)")
                continue
            }
            #expect(refusal.denial == denial)
        }
        guard case .forward = decision.counter(.committed) else {
            Issue.record("a committed counter is not forwarded")
            return
        }
    }

    @Test("the challenge endpoint answers a device and nobody else", arguments: platforms)
    func challenge(_ platform: Platform) throws {
        let world = try World(platform)
        #expect(try world.challenge([]) == nil)
        for fault in [Fault.stranger, .anonymous, .storeSilent, .revoked, .bindingEnded, .deviceRate] {
            #expect(try world.challenge([fault]) == fault.denial, "\(fault)")
        }
    }
}

/// A gateway with one device, and requests that have faults.
private final class World {
    typealias Fault = RequestDecisionTests.Fault

    private let library: LibraryContext
    private let loop: Loop
    private let log: LogWriter
    private let platform: Platform
    /// Its signer as a phone of either platform.
    private let signers: [Platform: ProofSigner]
    /// Its assertions of iOS 26 and earlier, without extensions.
    private let plainSigner: ProofSigner
    private let stranger: ProofSigner
    private let registry: DeviceRegistry
    private var client: RegistryClient?
    private var received: RegistryEvent?
    private let binding = Fixture.bindingKey(1)
    private let app: AppID
    /// By whether its rates are exhausted, which no other request may notice, or its policy demands an attestation.
    private let gateways: [Fault?: GatewayApplication]
    /// The counter of the last request.
    var counter: UInt32 = 1_000
    /// The platform whose proofs the phone makes.
    var signsLike: Platform
    /// Whether `alg` is what the registered platform requires, whatever the phone signs.
    var statesRegisteredAlgorithm = false
    /// The text of Attest-Proof-Counter in place of the counter.
    var counterText: String?
    /// Counters spent so far, by the store's own count.
    var spent: Int { registry.metrics.counters }

    /// The key of the certificate in decisions about shares.
    var certificateKey: KeyID
    /// Whether only the registry vouches for the certificate.
    var isSelfSigned = false
    /// The denial against the last request, which passed all the same.
    private(set) var observed: Denial?
    /// Whether the last request, if a denial was against it, had an identity.
    private(set) var isIdentified = false

    init(_ platform: Platform, enforcedPercent: Int = 100) throws {
        certificateKey = binding
        library = try LibraryContext()
        loop = try Loop()
        log = try LogWriter(.file("/dev/null"))
        self.platform = platform
        signsLike = platform
        let apps = [
            Platform.iOS: try #require(AppID("ABCDE12345.org.example.app")),
            .android: try #require(AppID("android:org.example.app")),
        ]
        app = try #require(apps[platform])
        let key = try PrivateKey.generateP256(library)
        let context = library
        signers = try apps.mapValues { try ProofSigner(key, of: $0, form: .iOS27, context) }
        plainSigner = try ProofSigner(key, of: app, form: .iOS14, library)
        stranger = try ProofSigner(PrivateKey.generateP256(library), of: app, form: .iOS27, library)
        registry = try DeviceRegistry.start(MemoryContent())
        let secrets = try GatewaySecrets(parsing: GatewaySecrets.fresh(library))
        var gateways: [Fault?: GatewayApplication] = [:]
        for fault in [nil, Fault.source, .deviceRate, .lacking, .routeRate] {
            let gateway = try Self.gateway(for: fault, enforcedPercent, loop, log, library)
            let categories = AppExtensionPolicy.Categories([.appStore], absence: .refused)
            let settings = Enforcement.Settings(
                apps: [
                    AdmittedApps.Setting(
                        id: app, environment: .production, counters: .strict,
                        extensions: platform == .android
                            ? AppExtensionPolicy()
                            : AppExtensionPolicy(
                                categories: categories,
                                minimumSystem: .init(try #require(SystemVersion("17.4")), absence: .admitted)),
                        maximumRisk: 5)
                ], secrets: secrets, maxAge: 60, challengeLife: 600, keyLimit: 10, heldContent: 1 << 20)
            try gateway.enforce(settings, registry, loop: loop, library) { _ in }
            gateways[fault] = gateway
        }
        self.gateways = gateways
        let client = try RegistryClient(registry, loop: loop) { [unowned self] event in
            received = event
            loop.stop()
        }
        self.client = client
        let identity = DeviceIdentity(
            app: app, platform: platform, environment: .production, hardwareKey: plainSigner.keyID,
            point: try #require(PublicPoint(plainSigner.point)))
        #expect(client.perform(.register(identity, binding: binding), token: 1))
        loop.run()
    }

    deinit {
        client = nil
        registry.stop()
        log.stop()
    }

    private static func gateway(
        for fault: Fault?, _ enforcedPercent: Int, _ loop: Loop, _ log: LogWriter, _ library: LibraryContext
    ) throws -> GatewayApplication {
        let routes = [(Requirement.requestProof, "/records", false), (.requestProof, "/chat", true)].map {
            Route(
                name: $0.1, host: "a.example", prefix: $0.1, methods: MethodSet([.get, .post]), requirement: $0.0,
                enforcedPercent: enforcedPercent, policy: fault == .lacking ? 0 : 1, apps: AppSet(places: [0], of: 1),
                upstream: 0, contentLimit: 10,
                webSocket: $0.2, deviceToken: .required)
        }
        let address = try SocketAddress("127.0.0.1:9")
        let once = Rate(1, per: .seconds(3_600), burst: 1)
        let rates = RequestRates(
            source: fault == .source ? once : nil, device: fault == .deviceRate ? once : nil,
            routes: fault == .routeRate ? ["/records": once, "/chat": once] : [:])
        return try GatewayApplication(
            GatewayApplication.Settings(
                routes: routes,
                upstreams: [UpstreamSettings(name: "service", servers: [.init(name: "a", addresses: [address])])],
                policies: [
                    DevicePolicy(name: "attested", apple: [.attestedWithin(60)], android: [.attestedWithin(60)]),
                    DevicePolicy(name: "asked", decisionPoint: 0),
                ], decisionPoints: [],
                certificateFields: [], strippedFields: [], forwardedFields: [], denialURI: "", listeners: ["listener"],
                ports: [[443]],
                accessLog: AccessLog.Settings(), tracing: nil, rates: rates, sourceLimits: .init(),
                tunnelLimits: TunnelLimits(worker: 1, device: 1),
                clientLimits: ClientLimits(connections: 1, streams: 1, requests: 1)),
            loop: loop, pool: BufferPool(), library: library, shared: SharedLimits(), log: log, exporter: nil,
            metrics: WorkerMetrics())
    }

    // MARK: - Decisions

    /// Decides about a request with a proof and content.
    func decide(_ faults: Set<Fault>) throws -> Denial? {
        let content = Array(faults.contains(.digest) ? "other".utf8 : "hello".utf8)
        return try run(try request(faults), content: content, faults)
    }

    func challenge(_ faults: Set<Fault>) throws -> Denial? {
        try run("GET /.well-known/attestgate/challenge HTTP/1.1\r\nHost: a.example\r\n\r\n", content: [], faults)
    }

    func randomKey() -> KeyID { Fixture.bindingKey(.random(in: 10...10_000)) }

    /// Runs the steps as an exchange does, with a registry of its own and without an upstream.
    private func run(_ text: String, content: [UInt8], _ faults: Set<Fault>) throws -> Denial? {
        let bytes = Array(text.utf8)
        // As if another route admitted the field and the target.
        var parser = RequestHeadParser(
            limits: HeadLimits(
                bytes: 16_384, target: 8_192, fields: 100, admitsUnusualNames: true, targetForms: .common))
        var head = RequestHead()
        _ = try parser.parse(bytes.span, into: &head)
        let special = [Fault.source, .deviceRate, .lacking, .routeRate].first { faults.contains($0) }
        let gateway = try #require(gateways[special])
        var now = Instant.now
        let isSelfSigned = self.isSelfSigned || faults.contains(.stranger)
        if let special { exhaust(special, gateway, now) }
        if let refusal = RequestDecision.source(1, gateway, now: now) { return refusal.denial }

        var decision = RequestDecision()
        func begun() -> RequestDecision.Step {
            decision.begin(
                head, bytes.span, isServed: !faults.contains(.otherHost), listener: 0,
                certificate: faults.contains(.anonymous) ? nil : isSelfSigned ? .selfSigned : .issued, gateway)
        }
        func observe(_ refusal: Refusal) -> RequestDecision.Step? {
            decision.observe(refusal, certificateKey, isSelfSigned: isSelfSigned, gateway, now: now)
        }
        defer {
            observed = decision.observed?.denial
            isIdentified = observed != nil && (decision.device != nil || decision.proof != nil)
        }
        func answered() -> RequestDecision.Step? {
            decision.answered(answer(faults), hasContent: head.framing.hasContent, gateway)
        }
        var step = begun()
        while true {
            switch step {
            case .refuse(let refusal):
                guard let next = observe(refusal) else { return refusal.denial }
                step = next
            case .answer, .forward: return nil
            case .lookUp:
                step = try decision.found(lookUp(faults), isSelfSigned: isSelfSigned, gateway, now: now) ?? begun()
            case .checkToken:
                let denial: Denial? =
                    faults.contains(.tokenAbsent)
                    ? .deviceTokenRequired : faults.contains(.tokenInvalid) ? .deviceTokenInvalid : nil
                step = decision.checked(denial.map { Refusal($0) })
            case .awaitTurn:
                guard !faults.contains(.queueFull) else { return decision.overdue(isDeciding: true).denial }
                step = decision.prove(head, bytes.span, gateway)
            case .takePlace:
                step = decision.admit(
                    shortage(faults, decision, gateway), hasContent: head.framing.hasContent, certificateEnd: .max,
                    gateway, now: now)
            case .ask, .awaitAnswer: step = try #require(answered())
            case .collect:
                // The decision point answers before the content is complete.
                if decision.policies.isAnswerDue, let next = answered() {
                    step = next
                    continue
                }
                let length = faults.contains(.contentLength) ? 11 : content.count
                guard !decision.isTooMuch(UInt64(length), gateway) else { return .contentTooLarge }
                if faults.contains(.contentStale) { now = now + .seconds(61) }
                // It is judged first while content arrives.
                if let refusal = decision.staleness(now), observe(refusal) == nil { return refusal.denial }
                step = decision.content(isMatch: try matches(content, decision.proof), now: now)
            case .stream, .spend: step = try spend(decision, faults)
            }
        }
    }

    /// The answer of the policy's decision point.
    private func answer(_ faults: Set<Fault>) -> Refusal? {
        if faults.contains(.pointDenies) { return Refusal(.policyDenied) }
        return faults.contains(.pointSilent) ? Refusal(.policyUnavailable) : nil
    }

    private func exhaust(_ fault: Fault, _ gateway: GatewayApplication, _ now: Instant) {
        guard let limiter = gateway.limiter else { return }
        switch fault {
        case .source: _ = limiter.excess(ofSource: 1, now: now)
        case .deviceRate: if let id = DeviceID(1) { _ = limiter.excess(of: id, now: now) }
        case .lacking: break
        default: for route in gateway.routes.routes.indices { _ = limiter.excess(ofRoute: route, now: now) }
        }
    }

    private func lookUp(_ faults: Set<Fault>) throws -> DeviceLookup {
        if faults.contains(.storeSilent) { return .storeUnavailable }
        if faults.contains(.keyUnknown) || faults.contains(.stranger) { return .unknown }
        let client = try #require(client)
        var lookup = client.device(forBinding: binding, token: 2)
        if case .pending = lookup {
            loop.run()
            if case .device(_, let found)? = received { lookup = found }
        }
        guard case .found(let device) = lookup else { return lookup }
        let standing: DeviceStatus =
            faults.contains(.revoked) ? .deviceRevoked : faults.contains(.bindingEnded) ? .bindingEnded : .active
        let system = SystemVersion(faults.contains(.oldSystem) ? "17.3" : "17.4")
        let other = try #require(AppID("ABCDE12345.org.example.other"))
        let otherPlatform: Platform = platform == .iOS ? .android : .iOS
        return .found(
            DeviceSnapshot(
                id: device.id, binding: binding,
                app: faults.contains(.otherApp) ? registry.number(of: other) : device.app,
                platform: faults.contains(.otherPlatform) ? otherPlatform : device.platform,
                environment: faults.contains(.otherEnvironment) ? .development : .production,
                hardwareKey: device.hardwareKey, point: device.point, standing: standing, shown: [],
                riskMetric: faults.contains(.risky) ? 6 : 5, systemVersion: system, slot: device.slot))
    }

    private func shortage(
        _ faults: Set<Fault>, _ decision: borrowing RequestDecision, _ gateway: GatewayApplication
    ) -> Refusal? {
        if faults.contains(.upstreamBusy) { return Refusal(Denial(UpstreamFailure.requestLimit)) }
        if faults.contains(.deviceRequests) { return Refusal(.deviceRequestLimit) }
        let holder = faults.contains(.tunnels) ? 8 : 1
        guard faults.contains(.tunnels) || faults.contains(.deviceTunnels) else { return nil }
        // The first takes the only place.
        let place = TunnelPlace(holder: .client(holder), upstream: 0)
        defer { gateway.give(place) }
        guard gateway.take(place) == nil else { return nil }
        return faults.contains(.tunnels) ? gateway.take(place) : Refusal(.deviceTunnelLimit)
    }

    private func matches(_ content: [UInt8], _ proof: VerifiedProof?) throws -> Bool {
        guard let digest = proof?.contentDigest else { return true }
        let hash = try library.sha256(of: content.span).bytes
        return digest.matches { _ in hash }
    }

    private func spend(_ decision: borrowing RequestDecision, _ faults: Set<Fault>) throws -> RequestDecision.Step {
        if faults.contains(.storeLost) { return decision.counter(.storeUnavailable) }
        if faults.contains(.epochChanged) { return decision.counter(.epochChanged) }
        if faults.contains(.late) { return decision.counter(.late(highest: .max)) }
        if faults.contains(.replayed) { return decision.counter(.replayed) }
        if faults.contains(.deviceGone) { return decision.counter(.unknown) }
        let client = try #require(client)
        let (known, proven) = (decision.device, decision.proof)
        let (device, proof) = (try #require(known), try #require(proven))
        let acceptance = client.spend(
            proof.counter, of: device, showing: proof.shown, mode: .strict, epoch: proof.epoch, token: 3)
        if let refusal = Refusal(acceptance, of: proof.counter) { return .refuse(refusal) }
        loop.run()
        guard case .counter(_, let outcome)? = received else { return .refuse(Refusal(.internalError)) }
        return decision.counter(outcome)
    }

    // MARK: - Requests

    private func request(_ faults: Set<Fault>) throws -> String {
        counter += 1
        let isUpgrade = !faults.isDisjoint(with: [.webSocketMalformed, .webSocketVersion])
        let path = faults.contains(.pathUnknown) ? "/other" : isUpgrade ? "/chat" : "/records"
        let method = faults.contains(.method) ? "DELETE" : isUpgrade ? "GET" : "POST"
        let host =
            faults.contains(.hostUnknown) ? "b.example" : faults.contains(.otherPort) ? "a.example:444" : "a.example"
        let query = faults.contains(.target) ? "?a|b" : ""
        var lines = ["\(method) \(path)\(query) HTTP/1.1", "Host: \(host)"]
        if faults.contains(.overridingField) { lines.append("X-HTTP-Method-Override: DELETE") }
        if faults.contains(.fieldName) { lines.append("X_Odd: 1") }
        if isUpgrade {
            lines += ["Connection: Upgrade", "Upgrade: websocket"]
            lines.append("Sec-WebSocket-Version: \(faults.contains(.webSocketVersion) ? 12 : 13)")
            lines.append(
                "Sec-WebSocket-Key: \(faults.contains(.webSocketMalformed) ? "x" : "dGhlIHNhbXBsZSBub25jZQ==")")
        } else {
            lines.append("Content-Length: \(faults.contains(.declaredLength) ? 11 : 5)")
        }
        if !faults.contains(.noProof) { lines += try proof(method, host, path + query, hasContent: !isUpgrade, faults) }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    private func proof(
        _ method: String, _ host: String, _ path: String, hasContent: Bool, _ faults: Set<Fault>
    ) throws -> [String] {
        let target = try #require(RequestTarget(url: "https://\(host)\(path)"))
        let request = try AttestedRequest(
            method: method, target: target, content: hasContent ? .bytes(Array("hello".utf8)) : .none)
        var alterations = ProofAlterations()
        if faults.contains(.signatureLength) { alterations.corruption = .assertion }
        if faults.contains(.malformedProof) { alterations.corruption = .signatureInput }
        if faults.contains(.otherKeyID) { alterations.keyID = stranger.keyID.base64 }
        let algorithms = [platform.proofAlgorithm, platform == .iOS ? .ecdsaP256SHA256 : .appleAttest]
        if statesRegisteredAlgorithm { alterations.algorithm = algorithms[0].description }
        if faults.contains(.unknownAlgorithm) { alterations.algorithm = algorithms[1].description }
        if faults.contains(.challengeForeign) { alterations.nonce = "abc" }
        if faults.contains(.old) { alterations.createdOffset = -61 }
        if faults.contains(.incomplete) { alterations.omitted = ["@method"] }
        if faults.contains(.counterUncovered) { alterations.omitted.append("attest-proof-counter") }
        let genuine = try #require(signers[signsLike])
        let altered = try AlteredProof(
            request, answering: try freshChallenge(), keyID: genuine.keyID, created: WallClock.seconds,
            counter: genuine.stated(counter), alterations, library)
        let signer =
            faults.contains(.signatureInvalid) ? stranger : faults.contains(.category) ? plainSigner : genuine
        let assertion = try signer.sign(counter: counter, clientDataHash: altered.clientDataHash)
        let fields = try altered.fields(assertion: assertion)
        return fields.lines.compactMap { name, value in
            guard name == "Attest-Proof-Counter" else { return "\(name): \(value)" }
            if faults.contains(.counterAbsent) { return nil }
            return "\(name): \(counterText ?? (faults.contains(.counterMalformed) ? "0\(value)" : value))"
        }
    }

    /// Returns what a denial asks the device for.
    func asked() throws -> AcceptSignature {
        guard case .found(let device) = try lookUp([]) else { throw CryptographyError(doing: "find the device") }
        var output = ByteBuffer(pool: BufferPool())
        let enforcement = try #require(gateways[nil]?.enforcement)
        enforcement.appendAcceptSignature(to: &output, for: RequestHead(), route: 0, device: device)
        return try Self.parse(output)
    }

    private func freshChallenge() throws -> ReceivedChallenge {
        let challenges = try #require(gateways[nil]?.enforcement).challenges
        let value = try #require(challenges.fieldValue(asking: [], now: UInt64(WallClock.seconds)))
        return ReceivedChallenge(try AcceptSignature(parsing: value.span), receivedAt: WallClock.seconds)
    }

    private static func parse(_ output: borrowing ByteBuffer) throws -> AcceptSignature {
        let value = Array(output.copy().dropFirst("Accept-Signature: ".utf8.count).dropLast(2))
        return try AcceptSignature(parsing: value.span)
    }
}
