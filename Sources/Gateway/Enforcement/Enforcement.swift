internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import RequestProof
internal import Vocabulary

/// What one worker needs to hold requests to their routes' demands: the registry, the apps, the verification of proofs.
///
/// Decides nothing about the order of things: that is the exchange's, one request after the other.
package final class Enforcement {
    /// The same for all workers.
    package struct Settings: Sendable {
        let apps: [AdmittedApps.Setting]
        package let secrets: GatewaySecrets
        let maxAge: Int64
        let challengeLife: UInt64
        let keyLimit: Int
        let heldContent: Int

        /// - Parameters:
        ///   - maxAge: how old a proof may be, in seconds.
        ///   - challengeLife: how long a challenge is good for, in seconds.
        ///   - keyLimit: decoded hardware keys kept by each worker.
        ///   - heldContent: content held by each worker for requests that cannot be forwarded yet, in bytes.
        package init(
            apps: [AdmittedApps.Setting], secrets: GatewaySecrets, maxAge: Int64, challengeLife: UInt64, keyLimit: Int,
            heldContent: Int
        ) {
            self.apps = apps
            self.secrets = secrets
            self.maxAge = maxAge
            self.challengeLife = challengeLife
            self.keyLimit = keyLimit
            self.heldContent = heldContent
        }
    }

    let proofs: ProofVerifier
    let challenges: RequestChallenges
    let apps: AdmittedApps
    private let library: LibraryContext
    private let loop: Loop
    private let pool: BufferPool
    private let budget: ContentBudget
    /// By route, in the order of the table.
    private let coverages: [Coverage]
    /// By upstream.
    private let pseudonymKeys: [AuthenticationKey]
    private let logNames: DeviceLogNames
    private let client: RegistryClient
    private let waits: Waits
    private let verifications: VerificationQueue
    let tunnels: OpenTunnels
    private let watch: LoopTimer

    /// One device may hold one part in so many of `heldContent`, or the content of one request.
    private static let shares = 16

    /// An answer of the registry that takes longer means that the store is stuck.
    static let patience = TimeSpan.seconds(5)

    /// - Parameter barred: called with the mTLS keys whose open connections are to be closed.
    init(
        _ settings: Settings, _ registry: DeviceRegistry, routes: RouteTable, upstreams: [String], loop: Loop,
        pool: BufferPool, _ library: LibraryContext, barred: @escaping ([KeyID]) -> Void
    ) throws {
        self.library = library
        self.loop = loop
        self.pool = pool
        let holding = routes.routes.filter { $0.requirement == .requestProof && $0.body == .collected }
        let largest = holding.map { Int(clamping: $0.contentLimit) }.max() ?? 0
        budget = ContentBudget(limit: settings.heldContent, share: max(settings.heldContent / Self.shares, largest))
        apps = try AdmittedApps(settings.apps, registry, library)
        coverages = routes.routes.map { Coverage(demanding: $0.components.compactMap { FieldComponent($0) }) }
        pseudonymKeys = try upstreams.map { name throws(CryptographyError) in
            try settings.secrets.pseudonymKey(ofUpstream: name, library)
        }
        logNames = try settings.secrets.logNames(library)
        let challenges = try RequestChallenges(
            settings.secrets, registry.identity, life: settings.challengeLife, library,
            isCurrent: { registry.isCurrent($0) })
        self.challenges = challenges
        proofs = ProofVerifier(challenges, maxAge: settings.maxAge, keyLimit: settings.keyLimit, library)
        let waits = Waits()
        self.waits = waits
        verifications = VerificationQueue(loop: loop) { token in
            guard let exchange = waits.leave(token) else { return false }
            exchange.verificationDue()
            return true
        }
        let tunnels = OpenTunnels()
        self.tunnels = tunnels
        client = try RegistryClient(registry, loop: loop) { event in
            switch event {
            case .device(let token, let lookup): waits.leave(token)?.registryAnswered(lookup)
            case .counter(let token, let outcome): waits.leave(token)?.counterDecided(outcome)
            case .barred(let keys):
                // They know by themselves why they end; the connections of the others just do.
                tunnels.confirm(keys)
                barred(keys)
            // If it fails, challenges stay those of the old epoch, and the store refuses whatever was made with them.
            case .identity(let identity): try? challenges.renew(identity)
            // Workers send no commands.
            case .reply: break
            }
        }
        watch = LoopTimer(loop: loop, interval: .seconds(1), repeats: true) {
            for exchange in waits.overdue(at: loop.now) { exchange.waitOverdue() }
            tunnels.confirm()
        }
    }

    /// The exchanges that wait, shared with the closures that the registry and the timer call.
    private final class Waits {
        private var table = RegistryWaits<ForwardingExchange>()

        func enter(_ exchange: ForwardingExchange, at now: Instant) -> UInt64 { table.enter(exchange, at: now) }
        func leave(_ token: UInt64) -> ForwardingExchange? { table.leave(token) }
        func overdue(at now: Instant) -> [ForwardingExchange] {
            table.overdue(at: now, after: Enforcement.patience)
        }
    }

    // MARK: - The registry

    /// Looks for the device that a certificate's key is bound to.
    ///
    /// - Parameter waiting: the token of a wait if the answer is `pending`; `registryAnswered` follows then.
    func lookUp(_ key: KeyID?, for exchange: ForwardingExchange, waiting: inout UInt64?) -> DeviceLookup {
        // A key of another curve can be bound to nothing.
        guard let key else { return .unknown }
        var token: UInt64?
        let lookup = client.device(forBinding: key, token: enter(exchange, &token))
        if let token { waiting = token }
        return lookup
    }

    private func enter(_ exchange: ForwardingExchange, _ token: inout UInt64?) -> UInt64 {
        let entered = waits.enter(exchange, at: loop.now)
        token = entered
        return entered
    }

    /// Spends the counter of a verified proof.
    ///
    /// - Returns: the token of a wait, `counterDecided` follows; or why not.
    func spend(
        _ proof: VerifiedProof, of device: DeviceSnapshot, app: Int, for exchange: ForwardingExchange
    ) -> Result<UInt64, Refusal> {
        let token = waits.enter(exchange, at: loop.now)
        let acceptance = client.spend(
            proof.counter, of: device, showing: proof.shown, mode: apps[app].counters, epoch: proof.epoch, token: token)
        guard let refusal = Refusal(acceptance, of: proof.counter) else { return .success(token) }
        _ = waits.leave(token)
        return .failure(refusal)
    }

    /// The exchange waits no more; an answer that still comes meets nobody.
    func stopWaiting(_ token: UInt64) {
        _ = waits.leave(token)
    }

    // MARK: - The decision

    func standing(
        of lookup: DeviceLookup, isSelfSigned: Bool, on requirement: Requirement, admitting apps: AppSet
    ) -> RouteAccess {
        RouteAccess(lookup, isSelfSigned: isSelfSigned, on: requirement, admitting: apps) { device in
            self.apps.place(of: device.app).map { place in
                RouteAccess.App(
                    place: place, environment: self.apps[place].environment, maximumRisk: self.apps[place].maximumRisk,
                    minimumSystem: self.apps[place].extensions.minimumSystem)
            }
        }
    }

    /// Lets a request wait until it is its turn to have its proof verified: `verificationDue` follows.
    ///
    /// - Returns: the token of the wait.
    func awaitVerification(of exchange: ForwardingExchange) -> UInt64 {
        let token = waits.enter(exchange, at: loop.now)
        verifications.enter(token)
        return token
    }

    func verify(
        _ head: RequestHead, _ bytes: Span<UInt8>, by device: DeviceSnapshot, app: Int, route: Int
    ) -> ProofVerifier.Verdict {
        proofs.verify(
            head, bytes, by: device, of: apps[app], covering: coverages[route], now: WallClock.seconds)
    }

    /// What becomes of the content of a request whose proof has been verified.
    ///
    /// - Parameter framing: of content that is streamed; nil if it is collected.
    func content(
        of proof: VerifiedProof, from device: DeviceSnapshot, streaming framing: ContentFraming?
    ) throws(CryptographyError) -> ProvenContent {
        let digests = try ContentDigests(expecting: proof.contentDigest, library)
        if let framing { return ProvenContent(digests, StreamedContent(framing)) }
        return ProvenContent(digests, CollectedContent(from: device.id, pool: pool, budget: budget))
    }

    // MARK: - Values for clients, upstreams and logs

    /// Appends `Accept-Signature` for a request of this route, or of none.
    func appendAcceptSignature(to output: inout ByteBuffer, for head: RequestHead, route: Int?) {
        let coverage = route.map { coverages[$0] } ?? Coverage()
        challenges.appendField(
            asking: coverage.components(for: ReceivedProofFields.traits(of: head)),
            now: UInt64(max(0, WallClock.seconds)),
            to: &output)
    }

    /// What an upstream knows the device by.
    func pseudonym(of device: DeviceSnapshot, for upstream: Int) throws(CryptographyError) -> Digest256 {
        let bytes = device.hardwareKey.bytes
        return try pseudonymKeys[upstream].code(of: bytes.span)
    }

    /// What the log knows the device by; nil if it cannot be computed, which is no reason to refuse anything.
    func label(of device: DeviceSnapshot) -> DeviceLabel? {
        guard let id = try? logNames.name(of: device.hardwareKey) else { return nil }
        return DeviceLabel(id: id, app: apps.place(of: device.app).map { apps[$0].id })
    }
}
