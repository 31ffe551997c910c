/// How a gateway fares: what `GET /status` answers.
public struct StatusDocument: Codable, Equatable, Sendable {
    public struct Reload: Codable, Equatable, Sendable {
        public let succeeded: Bool
        public let at: String
        /// Why it failed; nil if it succeeded.
        public let reason: String?

        public init(succeeded: Bool, at: Int64, reason: String?) {
            self.succeeded = succeeded
            self.at = Timestamp.text(of: at)
            self.reason = reason
        }
    }

    /// What went wrong, and when.
    public struct Failure: Codable, Equatable, Sendable {
        public let at: String
        public let reason: String

        public init(at: Int64, reason: String) {
            self.at = Timestamp.text(of: at)
            self.reason = reason
        }
    }

    public struct Worker: Codable, Equatable, Sendable {
        public let worker: Int
        /// Whether it has answered within a second; if not, the rest is of an earlier moment.
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

    /// Where devices are enrolled, and who is let in.
    public struct Enrolment: Codable, Equatable, Sendable {
        public let listener: String
        public let admission: String
        /// Nil if nobody is asked for newer receipts.
        public let receipts: Receipts?

        public init(listener: String, admission: String, receipts: Receipts? = nil) {
            self.listener = listener
            self.admission = admission
            self.receipts = receipts
        }
    }

    /// How it goes with newer receipts of devices.
    public struct Receipts: Codable, Equatable, Sendable {
        /// Since the process began.
        public let calls: UInt64
        public let refreshed: UInt64
        /// Why no calls are made for now; nil if they are.
        public let paused: String?
        /// By app, where one has a ceiling; counted up to ten thousand.
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
        /// Requests that wait for a connection.
        public let waiting: Int
        public let servers: [Server]
        /// As it is offered in a handshake. Nil of one that only an earlier generation has.
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

    /// One server of an upstream.
    public struct Server: Codable, Equatable, Sendable {
        public let name: String
        public let busy: Int
        public let idle: Int
        /// How many workers think so of it: usable, probation, ejected, unhealthy. Those that none thinks are absent.
        public let states: [String: Int]
        /// Whatever was since; nil if there was none since the process began.
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

    /// A host of a listener that has several.
    public struct Host: Codable, Equatable, Sendable {
        public let listener: String
        public let names: [String]

        public init(listener: String, names: [String]) {
            self.listener = listener
            self.names = names
        }
    }

    /// What a listener speaks.
    public struct Protocols: Codable, Equatable, Sendable {
        public let listener: String
        /// As they are offered in the handshake.
        public let names: [String]

        public init(listener: String, names: [String]) {
            self.listener = listener
            self.names = names
        }
    }

    /// What an authority says of certificates, and until when that is to be believed: a revocation list, or an OCSP response.
    public struct Statement: Codable, Equatable, Sendable {
        public let listener: String
        /// Nil for the listener itself.
        public let host: String?
        /// Of a list its issuer, of a response its certificate's subject.
        public let of: String
        public let thisUpdate: String?
        public let nextUpdate: String
        /// That time is over.
        public let stale: Bool

        public init(
            listener: String, host: String?, of: String, thisUpdate: Int64? = nil, nextUpdate: Int64, now: Int64
        ) {
            self.listener = listener
            self.host = host
            self.of = of
            self.thisUpdate = thisUpdate.map { Timestamp.text(of: $0) }
            self.nextUpdate = Timestamp.text(of: nextUpdate)
            stale = nextUpdate <= now
        }

        private enum CodingKeys: String, CodingKey {
            case listener, host, of, stale
            case thisUpdate = "this_update"
            case nextUpdate = "next_update"
        }
    }

    public struct Certificate: Codable, Equatable, Sendable {
        /// Where it is for clients; nil where it is for an upstream.
        public let listener: String?
        public let upstream: String?
        /// Nil for the listener itself.
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
            self.expiresAt = Timestamp.text(of: expiresAt)
        }

        private enum CodingKeys: String, CodingKey {
            case listener, upstream, host, role, subject
            case expiresAt = "expires_at"
        }
    }

    public struct App: Codable, Equatable, Sendable {
        public let id: String
        public let environment: String
        /// As the conf file has it: `strict`, `window 64`.
        public let counter: String

        public init(id: String, environment: String, counter: String) {
            self.id = id
            self.environment = environment
            self.counter = counter
        }
    }

    /// By state; counted at most a minute ago.
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
        /// Since when it is not, and why; nil if it is.
        public let unavailableSince: String?
        public let reason: String?
        public let countersCommitted: Int
        public let countersWaiting: Int
        /// Whether every revocation stands in the revocation journal, too.
        public let journalComplete: Bool?
        /// When all earlier challenges began to be refused; nil if that has not happened since the process began.
        public let epochChangedAt: String?
        /// Nil while they have not been counted yet.
        public let devices: Devices?

        public init(
            available: Bool, countersCommitted: Int, countersWaiting: Int, journalComplete: Bool? = nil,
            epochChangedAt: Int64? = nil, devices: Devices? = nil, unavailableSince: Int64? = nil,
            reason: String? = nil
        ) {
            self.unavailableSince = unavailableSince.map { Timestamp.text(of: $0) }
            self.reason = reason
            self.available = available
            self.countersCommitted = countersCommitted
            self.countersWaiting = countersWaiting
            self.journalComplete = journalComplete
            self.epochChangedAt = epochChangedAt.map { Timestamp.text(of: $0) }
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
    /// Why it is not ready; empty if it is.
    public let obstacles: [String]
    public let generation: Int
    /// The last one; nil if there was none.
    public let lastReload: Reload?
    /// The last one that came to nothing; nil if none did in this process.
    public let failedUpgrade: Failure?
    public let workers: [Worker]
    public let listeners: [String]
    /// Of each listener, that of enrolment included.
    public let protocols: [Protocols]
    /// Nil if no listener has several.
    public let hosts: [Host]?
    /// Nil if this process enrols nobody.
    public let enrolment: Enrolment?
    public let upstreams: [Upstream]
    public let certificates: [Certificate]
    public let revocationLists: [Statement]
    public let ocspResponses: [Statement]
    public let apps: [App]
    /// Nil if there is no registry.
    public let registry: Registry?

    public init(
        version: String, process: Int, startedAt: Int64, obstacles: [String], generation: Int, lastReload: Reload?,
        failedUpgrade: Failure? = nil, workers: [Worker], listeners: [String], protocols: [Protocols],
        hosts: [Host] = [], enrolment: Enrolment?,
        upstreams: [Upstream], certificates: [Certificate], revocationLists: [Statement], ocspResponses: [Statement],
        apps: [App], registry: Registry?
    ) {
        self.version = version
        self.process = process
        self.startedAt = Timestamp.text(of: startedAt)
        self.obstacles = obstacles
        self.generation = generation
        self.lastReload = lastReload
        self.failedUpgrade = failedUpgrade
        self.workers = workers
        self.listeners = listeners
        self.protocols = protocols
        self.hosts = hosts.isEmpty ? nil : hosts
        self.enrolment = enrolment
        self.upstreams = upstreams
        self.certificates = certificates
        self.revocationLists = revocationLists
        self.ocspResponses = ocspResponses
        self.apps = apps
        self.registry = registry
    }

    private enum CodingKeys: String, CodingKey {
        case version, process, obstacles, generation, workers, listeners, protocols, hosts, enrolment, upstreams
        case certificates, apps, registry
        case startedAt = "started_at"
        case lastReload = "last_reload"
        case failedUpgrade = "failed_upgrade"
        case revocationLists = "revocation_lists"
        case ocspResponses = "ocsp_responses"
    }
}

/// What `POST /reload` answers: what is served now.
public struct ReloadDocument: Codable, Sendable {
    public let generation: Int
    /// What is doubtful in the configuration that was read, each with its place; nil from a gateway that did not say so yet.
    public let warnings: [String]?

    public init(generation: Int, warnings: [String]) {
        self.generation = generation
        self.warnings = warnings
    }
}
