internal import Cryptography
internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import Logging
internal import Registry
internal import RegistryPostgreSQL
internal import RegistrySQLite
internal import RevocationJournal
internal import Synchronization

/// The registry of the process. A file can be open in one process only, and is released to a successor.
final class OpenRegistry {
    private let permissions: StartPermissions
    private let takesOver: Bool
    private let logger: Logger
    private var state = State.closed
    /// Sockets through which earlier processes ask.
    private var predecessors: [Int32] = []

    private enum State {
        /// There is none, or it is not open yet.
        case closed
        case open(DeviceRegistry)
        /// Another process has the file and is asked for look-ups.
        case released(DeviceRegistry)
    }

    /// The time for the lock on the file to be released when the other process ends.
    private static let lockPatience = TimeSpan.seconds(5)

    /// - Parameter takesOver: Whether another process may have the file and is ending.
    init(_ permissions: StartPermissions, takesOver: Bool, _ logger: Logger) {
        self.permissions = permissions
        self.takesOver = takesOver
        self.logger = logger
    }

    /// Returns the path of the registry's file; nil if it is in a database, or there is none.
    private func path(in blueprint: Blueprint) -> String? {
        if case .file(let path) = blueprint.registry?.store { path } else { nil }
    }

    /// Whether no other process can open the registry while this one has it.
    func isAlone(in blueprint: Blueprint) -> Bool { path(in: blueprint) != nil }

    /// Whether a process has the registry's file open.
    func isHeld(in blueprint: Blueprint) -> Bool {
        path(in: blueprint).map { DeviceRegistry.isHeld(path: $0) } ?? false
    }

    /// Opens the registry at the start.
    ///
    /// - Parameter isHandover: Whether a running process hands over its file.
    /// - Returns: Nil if the configuration has none.
    func open(for blueprint: Blueprint, isHandover: Bool) throws(StartupError) -> (
        Enforcement.Settings, DeviceRegistry
    )? {
        guard let settings = blueprint.registry else { return nil }
        let (registry, secrets) = try RegistryOpening(settings, permissions, takesOver: takesOver, logger).open(
            durability: blueprint.durability, isHandover: isHandover,
            patience: takesOver ? Self.lockPatience : TimeSpan(nanoseconds: 0))
        state = .open(registry)
        return (blueprint.enforcement(secrets), registry)
    }

    /// Opens again what was released to a process that has failed.
    ///
    /// - Returns: Nil if it is open, or there is none.
    func reopen(for blueprint: Blueprint) throws(StartupError) -> DeviceRegistry? {
        if case .open = state { return nil }
        guard let settings = blueprint.registry else { return nil }
        close()
        let opening = try RegistryOpening(settings, StartPermissions(), takesOver: false, logger)
        let registry = try opening.open(
            durability: blueprint.durability, isHandover: true, patience: Self.lockPatience
        ).registry
        state = .open(registry)
        answer(on: predecessors)
        return registry
    }

    /// Commits what waits, closes the file, and asks the process that opens it.
    ///
    /// - Parameter socket: An end of a pair, owned by the registry from now on.
    func release(asking socket: Int32) {
        guard case .open(let registry) = state else { return }
        registry.release(asking: socket)
        state = .released(registry)
        log(registry)
    }

    /// Answers the queries of processes that had the file before.
    ///
    /// - Parameter sockets: Sockets of pairs, owned by this object.
    func answer(on sockets: [Int32]) {
        predecessors = sockets
        guard case .open(let registry) = state else { return }
        // The registry gives up its own at the release of the file; the next process needs the others.
        for socket in querySockets {
            let copy = fcntl(socket, F_DUPFD_CLOEXEC, 0)
            if copy >= 0 { registry.answer(on: copy) }
        }
    }

    /// The sockets of those that still ask.
    var querySockets: [Int32] {
        predecessors.filter { socket in
            var state = pollfd(fd: socket, events: 0, revents: 0)
            return poll(&state, 1, 0) == 0
        }
    }

    /// Commits what waits, and closes the registry.
    func close() {
        switch state {
        case .closed: return
        case .open(let registry):
            registry.stop()
            log(registry)
        case .released(let registry): registry.stop()
        }
        state = .closed
    }

    private func log(_ registry: DeviceRegistry) {
        let metrics = registry.metrics
        logger.info("registry: \(metrics.counters) counters in \(metrics.commits) commits")
    }
}

/// Opens the registry together with its secret.
struct RegistryOpening {
    private let settings: RegistryConfiguration
    private let permissions: StartPermissions
    private let takesOver: Bool
    private let logger: Logger
    private let held: StartupSecrets

    /// Reads the secret, if it exists.
    init(
        _ settings: RegistryConfiguration, _ permissions: StartPermissions, takesOver: Bool, _ logger: Logger
    ) throws(StartupError) {
        self.settings = settings
        self.permissions = permissions
        self.takesOver = takesOver
        self.logger = logger
        held = StartupSecrets(settings.secretPath, try GatewaySecrets.read(settings.secretPath))
    }

    /// Opens the store and creates it if there is none. Creates a missing secret if no device depends on the old one.
    ///
    /// - Parameters:
    ///   - isHandover: Whether a running process hands over its file, so that its challenges remain valid.
    ///   - patience: How long to wait for a process that has the file and is ending.
    func open(
        durability: StoreOptions.Durability, isHandover: Bool, patience: TimeSpan
    ) throws(StartupError) -> (registry: DeviceRegistry, secrets: GatewaySecrets) {
        let claim = try claim()
        let registry: DeviceRegistry
        do throws(StoreOpenError) {
            registry = try open(claim, durability, isHandover, until: .now + patience)
        } catch {
            if let failure = held.failure { throw failure }
            throw StartupError("registry: \(error)", of: settings.setting(at: error.path))
        }
        guard let secrets = held.secrets else { preconditionFailure("a registry was opened without its secret") }
        return (registry, secrets)
    }

    private func open(
        _ claim: SecretClaim, _ durability: StoreOptions.Durability, _ isHandover: Bool, until end: Instant
    ) throws(StoreOpenError) -> DeviceRegistry {
        while true {
            do throws(StoreOpenError) { return try open(claim, durability, isHandover) } catch {
                guard case .locked = error, .now < end else { throw error }
                usleep(20_000)
            }
        }
    }

    private func open(
        _ claim: SecretClaim, _ durability: StoreOptions.Durability, _ isHandover: Bool
    ) throws(StoreOpenError) -> DeviceRegistry {
        var limits = RegistryLimits()
        limits.devices = settings.devices
        switch settings.store {
        case .file(let path):
            let isNew = access(path, F_OK) != 0
            // The registry is created before its secret, so the secret shows that there was one.
            if StoreFile.isEmpty(path), held.secrets != nil, !permissions.acceptsLostRegistry, try !witness.knowsStore()
            {
                throw .storeLost(path: path, witness: settings.secretPath)
            }
            let registry = try DeviceRegistry.start(
                path: path, creating: true, witness: witness, secret: claim, isHandover: isHandover, limits: limits,
                durability: durability, observe: observe)
            if isNew { logger.notice("registry: \(path) did not exist: created a new registry without devices") }
            return registry
        case .postgresql(let database):
            var database = PostgreSQLSettings(database)
            database.witness = witness
            database.secret = claim
            return try DeviceRegistry.start(database, limits: limits, observe: observe)
        }
    }

    private var observe: @Sendable (StoreEvent) -> Void {
        { [logger] event in
            switch event {
            case .failed(let reason): logger.error("registry: \(reason): requests that need it are refused")
            case .cannotReopen(let reason): logger.error("registry: cannot be reopened: \(reason)")
            case .recovered: logger.notice("registry: available again")
            }
        }
    }

    private var witness: WitnessSettings {
        WitnessSettings(
            path: settings.revocationsPath, acceptsLoss: permissions.acceptsLostRevocations,
            acceptsLostStore: permissions.acceptsLostRegistry, mayShare: takesOver,
            notice: { [logger] notice in
                switch notice {
                case .writesAgain: logger.notice("registry: \(notice)")
                case .cannotWrite: logger.error("registry: \(notice)")
                default: logger.warning("registry: \(notice)")
                }
            })
    }

    private func claim() throws(StartupError) -> SecretClaim {
        SecretClaim(
            path: settings.secretPath, check: try held.check(), acceptsNew: permissions.acceptsNewSecret,
            make: { [held] () throws(StoreOpenError) in try held.make() },
            notice: { [logger] notice in
                logger.log(level: notice.isLoss ? .warning : .notice, "registry: \(notice)")
            })
    }
}

/// The secret of a starting process: read, or created when the store permits it.
private final class StartupSecrets: Sendable {
    private let path: String
    private let state: Mutex<(secrets: GatewaySecrets?, failure: StartupError?)>

    init(_ path: String, _ secrets: GatewaySecrets?) {
        self.path = path
        state = Mutex((secrets, nil))
    }

    var secrets: GatewaySecrets? { state.withLock { $0.secrets } }
    /// Why it could not be created.
    var failure: StartupError? { state.withLock { $0.failure } }

    /// Returns the fingerprint of the secret, if it exists.
    func check() throws(StartupError) -> Fingerprint? {
        guard let secrets else { return nil }
        return try secrets.check(at: path)
    }

    func make() throws(StoreOpenError) -> Fingerprint {
        do throws(StartupError) {
            let secrets = try GatewaySecrets.load(path)
            let check = try secrets.check(at: path)
            state.withLock { $0.secrets = secrets }
            return check
        } catch {
            state.withLock { $0.failure = error }
            throw .failed(path: path, detail: error.description)
        }
    }
}

/// What an operator permits for one start of the gateway.
public struct StartPermissions: Sendable {
    /// Whether a lost revocation journal may be created again without its contents.
    public var acceptsLostRevocations: Bool
    /// Whether a lost registry may be created again without devices.
    public var acceptsLostRegistry: Bool
    /// Whether a lost secret may be created again although devices have names by the old one.
    public var acceptsNewSecret: Bool

    public init(
        acceptsLostRevocations: Bool = false, acceptsLostRegistry: Bool = false, acceptsNewSecret: Bool = false
    ) {
        self.acceptsLostRevocations = acceptsLostRevocations
        self.acceptsLostRegistry = acceptsLostRegistry
        self.acceptsNewSecret = acceptsNewSecret
    }
}
