internal import Bytes
internal import Cryptography
internal import Encoding
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import RequestProof
internal import Vocabulary

/// What one worker needs to enforce the requirements of routes: the registry, the apps, the verification of proofs.
///
/// The order of the checks is that of the exchange, which decides one request after the other.
package final class Enforcement {
    /// Settings that are the same for all workers.
    package struct Settings: Sendable {
        let apps: [AdmittedApps.Setting]
        package let secrets: GatewaySecrets
        let maxAge: Int64
        let challengeLife: UInt64
        let keyLimit: Int
        let heldContent: Int

        /// Makes the settings.
        ///
        /// - Parameters:
        ///   - maxAge: The maximum age of a proof, in seconds.
        ///   - challengeLife: How long a challenge is valid, in seconds.
        ///   - keyLimit: The maximum of decoded hardware keys per worker.
        ///   - heldContent: The maximum of content per worker for requests that cannot be forwarded yet, in bytes.
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
    /// By route. Nil where it is enforced on all devices.
    private let shares: [EnforcedShare?]
    /// By upstream.
    private let pseudonymKeys: [AuthenticationKey]
    private let logNames: DeviceLogNames
    private let client: RegistryClient
    private let waits: Waits
    private let verifications: VerificationQueue
    private let watch: LoopTimer

    /// A device may hold one part in so many of `heldContent`, or the content of one request.
    private static let budgetShares = 16

    /// The timeout for an answer of the registry.
    private static let patience = TimeSpan.seconds(5)

    /// Starts the enforcement.
    ///
    /// - Parameters:
    ///   - tunnels: The tunnels whose clients the registry is asked about.
    ///   - barred: Called with the mTLS keys whose open connections are to be closed.
    init(
        _ settings: Settings, _ registry: DeviceRegistry, routes: RouteTable, upstreams: [String],
        tunnels: OpenTunnels, loop: Loop, pool: BufferPool, _ library: LibraryContext,
        barred: @escaping ([KeyID]) -> Void
    ) throws {
        self.library = library
        self.loop = loop
        self.pool = pool
        let holding = routes.routes.filter { $0.requirement == .requestProof && $0.body == .collected }
        let largest = holding.map { Int(clamping: $0.contentLimit) }.max() ?? 0
        budget = ContentBudget(
            limit: settings.heldContent, share: max(settings.heldContent / Self.budgetShares, largest))
        apps = try AdmittedApps(settings.apps, registry, library)
        coverages = routes.routes.map { Coverage(demanding: $0.components.compactMap { FieldComponent($0) }) }
        shares = try routes.routes.map { route throws(CryptographyError) in
            guard route.requirement.includesDevice, route.isObserved else { return nil }
            return EnforcedShare(
                try settings.secrets.shareKey(ofRoute: route.name, library), percent: route.enforcedPercent)
        }
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
        client = try RegistryClient(registry, loop: loop) { event in
            switch event {
            case .device(let token, let lookup): waits.leave(token)?.registryAnswered(lookup)
            case .counter(let token, let outcome): waits.leave(token)?.counterDecided(outcome)
            case .barred(let keys):
                // Tunnels log why they end; other connections only close.
                tunnels.confirm(keys)
                barred(keys)
            // If it fails, challenges keep the old epoch, and the store refuses proofs made with them.
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

    /// The waiting exchanges, shared with the closures of the registry and the timer.
    private final class Waits {
        private var table = RegistryWaits<ForwardingExchange>()

        func enter(_ exchange: ForwardingExchange, at now: Instant) -> UInt64 { table.enter(exchange, at: now) }
        func leave(_ token: UInt64) -> ForwardingExchange? { table.leave(token) }
        func overdue(at now: Instant) -> [ForwardingExchange] {
            table.overdue(at: now, after: Enforcement.patience)
        }
    }

    // MARK: - The registry

    /// Looks up the device to which a certificate's key is bound.
    ///
    /// - Parameter waiting: Receives the token of a wait if the answer is `pending`; `registryAnswered` follows.
    func lookUp(_ key: KeyID?, for exchange: ForwardingExchange, waiting: inout UInt64?) -> DeviceLookup {
        // Only P-256 keys can be bound. A client without a certificate has none.
        guard let key else { return .unknown }
        var token: UInt64?
        let lookup = client.device(forBinding: key, token: enter(exchange, &token))
        if let token { waiting = token }
        return lookup
    }

    /// Returns what is known of a device. Nil if its record has left the memory.
    func posture(of device: DeviceSnapshot) -> (posture: Posture, generation: UInt32)? { client.posture(of: device) }

    /// Notes what an assertion shows of the app.
    ///
    /// - Returns: The number of the device's posture afterwards.
    func noteShown(by proof: VerifiedProof, _ device: DeviceSnapshot) -> UInt32 {
        guard proof.app != nil || proof.distribution != nil else { return device.postureGeneration }
        client.note(proof.app, proof.distribution, of: device)
        return posture(of: device)?.generation ?? device.postureGeneration
    }

    private func enter(_ exchange: ForwardingExchange, _ token: inout UInt64?) -> UInt64 {
        let entered = waits.enter(exchange, at: loop.now)
        token = entered
        return entered
    }

    /// Spends the counter of a verified proof.
    ///
    /// - Returns: The token of a wait, after which `counterDecided` follows; or the refusal.
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

    /// Ends a wait; a late answer has no receiver.
    func stopWaiting(_ token: UInt64) {
        _ = waits.leave(token)
    }

    // MARK: - The decision

    func standing(
        of lookup: DeviceLookup, isSelfSigned: Bool, on requirement: Requirement, admitting apps: AppSet
    ) -> RouteAccess {
        RouteAccess(lookup, isSelfSigned: isSelfSigned, on: requirement, admitting: apps) { device in
            self.apps.place(of: device).map { RouteAccess.App(self.apps[$0], at: $0) }
        }
    }

    /// Whether the route observes some devices.
    func isObserved(_ route: Int) -> Bool { shares[route] != nil }

    /// Returns whether the route is enforced on the sender.
    ///
    /// - Parameters:
    ///   - device: The device of the certificate. Nil if there is none.
    ///   - key: The certificate's key, or the certificate's id if that is not on P-256.
    func isEnforced(_ route: Int, on device: DeviceSnapshot?, _ key: KeyID?) -> Bool {
        guard let share = shares[route] else { return true }
        return device.map { share.includes($0.hardwareKey) } ?? false || key.map(share.includes) ?? false
    }

    /// Queues a request until its proof can be verified: `verificationDue` follows.
    ///
    /// - Returns: The token of the wait.
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

    /// Returns the holder of the content of a request whose proof was verified.
    ///
    /// - Parameter framing: The framing of content that is streamed; nil if it is collected.
    func content(
        of proof: VerifiedProof, from device: DeviceSnapshot, streaming framing: ContentFraming?
    ) throws(CryptographyError) -> ProvenContent {
        let digests = try ContentDigests(expecting: proof.contentDigest, library)
        if let framing { return ProvenContent(digests, StreamedContent(framing)) }
        return ProvenContent(digests, CollectedContent(from: device.id, pool: pool, budget: budget))
    }

    // MARK: - Values for clients, upstreams and logs

    /// Appends `Accept-Signature` for a request of a route, or of none.
    ///
    /// - Parameter device: The device of the certificate, if it is known.
    func appendAcceptSignature(
        to output: inout ByteBuffer, for head: RequestHead, route: Int?, device: DeviceSnapshot?
    ) {
        let value = challenges.fieldValue(
            for: head, route.map { coverages[$0] } ?? Coverage(), by: device?.platform, now: WallClock.seconds)
        if let value { output.appendField("Accept-Signature", value.span) }
    }

    /// Returns the pseudonym of the device for an upstream.
    func pseudonym(of device: DeviceSnapshot, for upstream: Int) throws(CryptographyError) -> Digest256 {
        let bytes = device.hardwareKey.bytes
        return try pseudonymKeys[upstream].code(of: bytes.span)
    }

    /// Returns the pseudonym of a certificate's key for an upstream, where no device is required.
    func pseudonym(ofKey key: KeyID, for upstream: Int) throws(CryptographyError) -> Digest256 {
        // No hardware key has this form, so it is the pseudonym of no device.
        let bytes = Array("certificate".utf8) + key.bytes
        return try pseudonymKeys[upstream].code(of: bytes.span)
    }

    /// Returns the pseudonym of a person for an upstream.
    ///
    /// - Parameter subject: That of the registry, which services must not learn.
    func pseudonym(ofPerson subject: Fingerprint, for upstream: Int) -> String? {
        let bytes = Array("subject".utf8) + subject.bytes
        return (try? pseudonymKeys[upstream].code(of: bytes.span)).map { Hexadecimal.encode($0.bytes) }
    }

    /// Returns the name of the device in logs; nil if it cannot be computed, which is no reason to refuse the
    /// request.
    func label(of device: DeviceSnapshot) -> DeviceLabel? {
        guard let id = try? logNames.name(of: device.hardwareKey) else { return nil }
        return DeviceLabel(id: id, app: apps.place(of: device).map { apps[$0].id })
    }
}

/// Waiters for answers of the registry, by the token of the answer.
///
/// A token is never reused, so an answer after its waiter has left has no receiver.
struct RegistryWaits<Waiter: AnyObject> {
    private struct Place {
        var waiter: Waiter?
        var generation: UInt32 = 0
        var since = Instant(nanoseconds: 0)
    }

    private var places: [Place] = []
    private var free: [UInt32] = []

    var count: Int { places.count - free.count }

    mutating func enter(_ waiter: Waiter, at now: Instant) -> UInt64 {
        let index = free.popLast() ?? UInt32(places.count)
        if index == places.count { places.append(Place()) }
        places[Int(index)].waiter = waiter
        places[Int(index)].since = now
        return UInt64(places[Int(index)].generation) << 32 | UInt64(index)
    }

    /// Removes a waiter.
    ///
    /// - Returns: The waiter; nil if it has left already.
    mutating func leave(_ token: UInt64) -> Waiter? {
        let index = Int(token & 0xffff_ffff)
        guard index < places.count, places[index].generation == UInt32(token >> 32), let waiter = places[index].waiter
        else { return nil }
        places[index].waiter = nil
        places[index].generation &+= 1
        free.append(UInt32(index))
        return waiter
    }

    /// Returns the waiters whose time is over; they stay until they leave.
    func overdue(at now: Instant, after patience: TimeSpan) -> [Waiter] {
        places.compactMap { $0.waiter != nil && now - $0.since >= patience ? $0.waiter : nil }
    }
}

/// Requests of one worker whose proofs wait for verification, in order.
///
/// A verification takes several times as long as all other work of a worker for a request. So other events go first:
/// answers of services, and requests whose counters have become durable.
final class VerificationQueue {
    private let loop: Loop
    private let verify: (UInt64) -> Bool
    private var tokens: [UInt64] = []
    private var first = 0
    /// Created once and passed to the loop whenever requests begin to wait.
    private lazy var piece: () -> Bool = { [weak self] in self?.verifySome() ?? false }

    /// Verifications in a row: each check for other events is a system call.
    private static let together = 2

    /// Creates an empty queue.
    ///
    /// - Parameter verify: Called with each token in turn. Returns whether there was a proof to verify.
    init(loop: Loop, verify: @escaping (UInt64) -> Bool) {
        self.loop = loop
        self.verify = verify
    }

    func enter(_ token: UInt64) {
        // If the queue is not empty, the loop has the work already.
        if tokens.isEmpty { loop.work(inPieces: piece) }
        tokens.append(token)
    }

    /// Verifies some proofs.
    ///
    /// - Returns: Whether others wait.
    private func verifySome() -> Bool {
        var verified = 0
        while verified < Self.together, first < tokens.count {
            let token = tokens[first]
            first += 1
            if verify(token) { verified += 1 }
        }
        // Compacted from time to time, so that a queue that never empties does not grow.
        if first == tokens.count || first >= Self.movingLimit {
            tokens.removeSubrange(..<first)
            first = 0
        }
        return !tokens.isEmpty
    }

    private static let movingLimit = 256
}
