internal import Encoding

/// The status of a gateway: the answer to `GET /status`.
public struct StatusDocument: Codable, Equatable, Sendable {
    public struct Reload: Codable, Equatable, Sendable {
        public let succeeded: Bool
        public let at: String
        /// The reason of a failure. Nil after success.
        public let reason: String?

        public init(succeeded: Bool, at: Int64, reason: String?) {
            self.succeeded = succeeded
            self.at = InternetTime.text(of: at)
            self.reason = reason
        }
    }

    /// A failure with its time.
    public struct Failure: Codable, Equatable, Sendable {
        public let at: String
        public let reason: String

        public init(at: Int64, reason: String) {
            self.at = InternetTime.text(of: at)
            self.reason = reason
        }
    }

    public struct Worker: Codable, Equatable, Sendable {
        public let worker: Int
        /// Whether the worker answered within a second. If not, the other values are older.
        public let up: Bool
        public let generation: Int
        public let connections: Int
        public let retiredGenerations: Int

        public init(worker: Int, up: Bool, generation: Int, connections: Int, retiredGenerations: Int) {
            self.worker = worker
            self.up = up
            self.generation = generation
            self.connections = connections
            self.retiredGenerations = retiredGenerations
        }

        private enum CodingKeys: String, CodingKey {
            case worker, up, generation, connections
            case retiredGenerations = "retired_generations"
        }
    }

    /// The listener of the federation and its services.
    public struct Federation: Codable, Equatable, Sendable {
        public let listener: String
        public let url: String
        /// The number of approved services.
        public let services: Int
        /// The number of services whose RSD2 document was fetched and accepted.
        public let described: Int

        public init(listener: String, url: String, services: Int, described: Int) {
            self.listener = listener
            self.url = url
            self.services = services
            self.described = described
        }
    }

    /// The listeners of enrolment and the condition of admission.
    public struct Enrolment: Codable, Equatable, Sendable {
        public let listener: String
        /// The listener for enrolled devices. Nil if there is none.
        public let devicesListener: String?
        public let admission: String
        /// The state of receipt refreshes. Nil if there are none.
        public let receipts: Receipts?
        /// The state of Android's status list. Nil if no app demands it.
        public let statusList: FetchedContent?

        /// The state of the keys of admission tokens. Nil if none are fetched.
        public let issuerKeys: FetchedContent?

        public init(
            listener: String, devicesListener: String? = nil, admission: String, receipts: Receipts? = nil,
            statusList: FetchedContent? = nil, issuerKeys: FetchedContent? = nil
        ) {
            self.listener = listener
            self.devicesListener = devicesListener
            self.admission = admission
            self.receipts = receipts
            self.statusList = statusList
            self.issuerKeys = issuerKeys
        }

        private enum CodingKeys: String, CodingKey {
            case listener, admission, receipts
            case devicesListener = "devices_listener"
            case statusList = "status_list"
            case issuerKeys = "issuer_keys"
        }
    }

    /// The state of the list of revoked attestation keys, or of the keys of admission tokens.
    public struct FetchedContent: Codable, Equatable, Sendable {
        /// The URL or the path.
        public let source: String
        /// `current`, `missing` or `stale`. Phones that need the content can enrol only with a current one.
        public let state: String
        public let entries: Int
        /// The number of seconds since the source confirmed the content. Nil if there is none.
        public let ageSeconds: Int64?
        /// The reason why the last fetch had no effect. Nil if it succeeded.
        public let failure: String?

        public init(source: String, state: String, entries: Int, ageSeconds: Int64?, failure: String?) {
            self.source = source
            self.state = state
            self.entries = entries
            self.ageSeconds = ageSeconds
            self.failure = failure
        }

        private enum CodingKeys: String, CodingKey {
            case source, state, entries, failure
            case ageSeconds = "age_seconds"
        }
    }

    /// The state of receipt refreshes.
    public struct Receipts: Codable, Equatable, Sendable {
        /// The number of calls since the process began.
        public let calls: UInt64
        public let refreshed: UInt64
        /// The reason why calls are paused. Nil if they are not.
        public let paused: String?
        /// The number of devices above the limit by app, for apps with a limit, counted up to ten thousand.
        public let aboveCeiling: [String: Int]
        public let oldestOverdueSeconds: Int64

        public init(
            calls: UInt64, refreshed: UInt64, paused: String?, aboveCeiling: [String: Int], oldestOverdueSeconds: Int64
        ) {
            self.calls = calls
            self.refreshed = refreshed
            self.paused = paused
            self.aboveCeiling = aboveCeiling
            self.oldestOverdueSeconds = oldestOverdueSeconds
        }

        private enum CodingKeys: String, CodingKey {
            case calls, refreshed, paused
            case aboveCeiling = "above_ceiling"
            case oldestOverdueSeconds = "oldest_overdue_seconds"
        }
    }

    public struct Upstream: Codable, Equatable, Sendable {
        public let name: String
        public let busy: Int
        public let idle: Int
        /// The number of requests that wait for a connection.
        public let waiting: Int
        public let servers: [Server]
        /// The protocols in the order of the handshake's offer. Nil if only an earlier generation has the upstream.
        public let speaks: String?

        public init(
            name: String, busy: Int, idle: Int, waiting: Int, servers: [Server], speaks: String? = nil
        ) {
            self.name = name
            self.speaks = speaks
            self.busy = busy
            self.idle = idle
            self.waiting = waiting
            self.servers = servers
        }
    }

    /// A server of an upstream.
    public struct Server: Codable, Equatable, Sendable {
        public let name: String
        public let busy: Int
        public let idle: Int
        /// The number of workers by their state of the server: usable, probation, ejected, unhealthy. States without
        /// workers are absent.
        public let states: [String: Int]
        /// The last failure, even if others succeeded since. Nil if there was none since the process began.
        public let lastFailure: Failure?

        private enum CodingKeys: String, CodingKey {
            case name, busy, idle, states
            case lastFailure = "last_failure"
        }

        public init(name: String, busy: Int, idle: Int, states: [String: Int], lastFailure: Failure? = nil) {
            self.name = name
            self.lastFailure = lastFailure
            self.busy = busy
            self.idle = idle
            self.states = states
        }
    }

    /// A host of a listener with several hosts.
    public struct Host: Codable, Equatable, Sendable {
        public let listener: String
        public let names: [String]

        public init(listener: String, names: [String]) {
            self.listener = listener
            self.names = names
        }
    }

    /// The protocols of a listener.
    public struct Protocols: Codable, Equatable, Sendable {
        public let listener: String
        /// The names in the order of the handshake's offer.
        public let names: [String]

        public init(listener: String, names: [String]) {
            self.listener = listener
            self.names = names
        }
    }

    /// A signed statement about certificates with its validity: a revocation list or an OCSP response.
    public struct Statement: Codable, Equatable, Sendable {
        public let listener: String
        /// The host. Nil for the listener itself.
        public let host: String?
        /// The issuer of a list, or the certificate's subject of a response.
        public let of: String
        public let thisUpdate: String?
        public let nextUpdate: String
        /// Whether the validity has ended.
        public let stale: Bool

        public init(
            listener: String, host: String?, of: String, thisUpdate: Int64? = nil, nextUpdate: Int64, now: Int64
        ) {
            self.listener = listener
            self.host = host
            self.of = of
            self.thisUpdate = thisUpdate.map { InternetTime.text(of: $0) }
            self.nextUpdate = InternetTime.text(of: nextUpdate)
            stale = nextUpdate <= now
        }

        private enum CodingKeys: String, CodingKey {
            case listener, host, of, stale
            case thisUpdate = "this_update"
            case nextUpdate = "next_update"
        }
    }

    public struct Certificate: Codable, Equatable, Sendable {
        /// The listener. Nil for a statement about an upstream.
        public let listener: String?
        public let upstream: String?
        /// The host. Nil for the listener itself.
        public let host: String?
        public let role: String
        public let subject: String
        public let expiresAt: String

        public init(
            listener: String?, upstream: String? = nil, host: String? = nil, role: String, subject: String,
            expiresAt: Int64
        ) {
            self.listener = listener
            self.upstream = upstream
            self.host = host
            self.role = role
            self.subject = subject
            self.expiresAt = InternetTime.text(of: expiresAt)
        }

        private enum CodingKeys: String, CodingKey {
            case listener, upstream, host, role, subject
            case expiresAt = "expires_at"
        }
    }

    /// Requests of a route that is not enforced on every device.
    public struct Observed: Codable, Equatable, Sendable {
        public struct Span: Codable, Equatable, Sendable {
            public let requests: UInt64
            /// Those that enforcement forwards, too.
            public let passed: UInt64
            /// The others, by the code of the denial that is or would be theirs.
            public let denials: [String: UInt64]

            public init(requests: UInt64, passed: UInt64, denials: [String: UInt64]) {
                self.requests = requests
                self.passed = passed
                self.denials = denials
            }
        }

        public let route: String
        /// The setting, such as `observe` or `25%`.
        public let enforce: String
        /// The app of the certificate's device. Nil if there is none.
        public let app: String?
        /// The first product of User-Agent, the client's word. Nil if there is none.
        public let version: String?
        public let lastHour: Span
        public let lastDay: Span

        public init(route: String, enforce: String, app: String?, version: String?, lastHour: Span, lastDay: Span) {
            self.route = route
            self.enforce = enforce
            self.app = app
            self.version = version
            self.lastHour = lastHour
            self.lastDay = lastDay
        }

        private enum CodingKeys: String, CodingKey {
            case route, enforce, app, version
            case lastHour = "last_hour"
            case lastDay = "last_day"
        }
    }

    /// Decisions of a policy.
    public struct Policy: Codable, Equatable, Sendable {
        public struct Span: Codable, Equatable, Sendable {
            public let decisions: UInt64
            public let denied: UInt64
            /// Those without an answer of the decision point.
            public let unavailable: UInt64
            /// Decisions by the code of what devices lacked.
            public let violations: [String: UInt64]

            public init(decisions: UInt64, denied: UInt64, unavailable: UInt64, violations: [String: UInt64]) {
                self.decisions = decisions
                self.denied = denied
                self.unavailable = unavailable
                self.violations = violations
            }
        }

        public let policy: String
        /// Whether the decisions had no effect.
        public let simulated: Bool
        public let lastHour: Span
        public let lastDay: Span

        public init(policy: String, simulated: Bool, lastHour: Span, lastDay: Span) {
            self.policy = policy
            self.simulated = simulated
            self.lastHour = lastHour
            self.lastDay = lastDay
        }

        private enum CodingKeys: String, CodingKey {
            case policy, simulated
            case lastHour = "last_hour"
            case lastDay = "last_day"
        }
    }

    public struct App: Codable, Equatable, Sendable {
        public let id: String
        public let environment: String
        /// The counter rule as in the conf file: `strict` or `window 64`.
        public let counter: String

        public init(id: String, environment: String, counter: String) {
            self.id = id
            self.environment = environment
            self.counter = counter
        }
    }

    /// The number of devices by state, counted at most a minute ago.
    public struct Devices: Codable, Equatable, Sendable {
        public let active: Int
        public let pending: Int
        public let revoked: Int

        public init(active: Int, pending: Int, revoked: Int) {
            self.active = active
            self.pending = pending
            self.revoked = revoked
        }
    }

    public struct Registry: Codable, Equatable, Sendable {
        public let available: Bool
        /// The time since when the registry is unavailable, and the reason. Nil if it is available.
        public let unavailableSince: String?
        public let reason: String?
        public let countersCommitted: Int
        public let countersWaiting: Int
        /// Whether the revocation journal has every revocation.
        public let journalComplete: Bool?
        /// The time at which all earlier challenges became invalid. Nil if that has not happened since the process
        /// began.
        public let epochChangedAt: String?
        /// The number of devices. Nil before the first count.
        public let devices: Devices?

        public init(
            available: Bool, countersCommitted: Int, countersWaiting: Int, journalComplete: Bool? = nil,
            epochChangedAt: Int64? = nil, devices: Devices? = nil, unavailableSince: Int64? = nil,
            reason: String? = nil
        ) {
            self.unavailableSince = unavailableSince.map { InternetTime.text(of: $0) }
            self.reason = reason
            self.available = available
            self.countersCommitted = countersCommitted
            self.countersWaiting = countersWaiting
            self.journalComplete = journalComplete
            self.epochChangedAt = epochChangedAt.map { InternetTime.text(of: $0) }
            self.devices = devices
        }

        private enum CodingKeys: String, CodingKey {
            case available, devices, reason
            case unavailableSince = "unavailable_since"
            case journalComplete = "journal_complete"
            case epochChangedAt = "epoch_changed_at"
            case countersCommitted = "counters_committed"
            case countersWaiting = "counters_waiting"
        }
    }

    public let version: String
    public let process: Int
    public let startedAt: String
    /// The reasons why the gateway is not ready. Empty if it is.
    public let obstacles: [String]
    public let generation: Int
    /// The last reload. Nil if there was none.
    public let lastReload: Reload?
    /// The last upgrade that failed. Nil if none did in this process.
    public let failedUpgrade: Failure?
    public let workers: [Worker]
    public let listeners: [String]
    /// The protocols of each listener, including that of enrolment.
    public let protocols: [Protocols]
    /// The hosts. Nil if no listener has several.
    public let hosts: [Host]?
    /// The state of enrolment. Nil if this process does not enrol.
    public let enrolment: Enrolment?
    /// The state of the federation. Nil if this process does not serve it.
    public let federation: Federation?
    public let upstreams: [Upstream]
    public let certificates: [Certificate]
    public let revocationLists: [Statement]
    public let ocspResponses: [Statement]
    public let apps: [App]
    /// Routes that are not enforced on every device, by route, app and version. Nil if there are none.
    public let observedRoutes: [Observed]?
    /// Policies of routes, each with its simulated decisions apart. Nil if no route has one.
    public let policies: [Policy]?
    /// The state of the registry. Nil if there is none.
    public let registry: Registry?

    public init(
        version: String, process: Int, startedAt: Int64, obstacles: [String], generation: Int, lastReload: Reload?,
        failedUpgrade: Failure? = nil, workers: [Worker], listeners: [String], protocols: [Protocols],
        hosts: [Host] = [], enrolment: Enrolment?, federation: Federation? = nil,
        upstreams: [Upstream], certificates: [Certificate], revocationLists: [Statement], ocspResponses: [Statement],
        apps: [App], observedRoutes: [Observed]? = nil, policies: [Policy]? = nil, registry: Registry?
    ) {
        self.version = version
        self.process = process
        self.startedAt = InternetTime.text(of: startedAt)
        self.obstacles = obstacles
        self.generation = generation
        self.lastReload = lastReload
        self.failedUpgrade = failedUpgrade
        self.workers = workers
        self.listeners = listeners
        self.protocols = protocols
        self.hosts = hosts.isEmpty ? nil : hosts
        self.enrolment = enrolment
        self.federation = federation
        self.upstreams = upstreams
        self.certificates = certificates
        self.revocationLists = revocationLists
        self.ocspResponses = ocspResponses
        self.apps = apps
        self.observedRoutes = observedRoutes
        self.policies = policies
        self.registry = registry
    }

    private enum CodingKeys: String, CodingKey {
        case version, process, obstacles, generation, workers, listeners, protocols, hosts, enrolment, federation
        case upstreams
        case certificates, apps, policies, registry
        case observedRoutes = "observed_routes"
        case startedAt = "started_at"
        case lastReload = "last_reload"
        case failedUpgrade = "failed_upgrade"
        case revocationLists = "revocation_lists"
        case ocspResponses = "ocsp_responses"
    }
}

/// The answer to `POST /reload`: the configuration that is served now.
public struct ReloadDocument: Codable, Sendable {
    public let generation: Int
    /// The warnings about the configuration with their positions. Nil from a gateway without this member.
    public let warnings: [String]?

    public init(generation: Int, warnings: [String]) {
        self.generation = generation
        self.warnings = warnings
    }
}
