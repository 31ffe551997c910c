internal import EventLoop
internal import Gateway
internal import Glibc
internal import Logging
internal import Registry

/// What a process opens once, for all its workers and generations.
enum ProcessResources {
    /// - Returns: nil if access is not logged.
    static func openLog(_ blueprint: Blueprint) throws(StartupError) -> LogWriter? {
        guard let destination = blueprint.accessDestination else { return nil }
        do throws(EventLoopError) { return try LogWriter(destination) } catch {
            throw StartupError("log: access: \(error.text)")
        }
    }

    /// After logrotate has moved the file away.
    static func reopen(_ log: LogWriter?, _ logger: Logger) {
        do throws(EventLoopError) {
            if try log?.reopen() == true {
                logger.info("access log reopened")
            } else {
                logger.info("SIGUSR1: access is not logged to a file, nothing to reopen")
            }
        } catch {
            logger.error("access log not reopened, the old file is kept: \(error.text)")
        }
    }

    /// Opens the store, and makes it where there is none.
    static func openRegistry(
        _ settings: Blueprint.RegistrySettings, durability: StoreOptions.Durability, _ logger: Logger
    ) throws(StartupError) -> DeviceRegistry {
        var limits = RegistryLimits()
        limits.devices = settings.devices
        let observe: @Sendable (StoreEvent) -> Void = { event in
            switch event {
            case .failed(let reason): logger.error("registry: \(reason): what needs it is refused")
            case .cannotReopen(let reason): logger.error("registry: cannot be opened again: \(reason)")
            case .recovered: logger.notice("registry: serves again")
            }
        }
        do throws(StoreOpenError) {
            switch settings.store {
            case .file(let path):
                if Glibc.access(path, F_OK) != 0 {
                    logger.notice("registry: there is no \(path): a new one is made, without devices")
                }
                return try DeviceRegistry.start(
                    path: path, creating: true, limits: limits, durability: durability, observe: observe)
            case .postgresql(let database):
                return try DeviceRegistry.start(PostgreSQLSettings(database), limits: limits, observe: observe)
            }
        } catch {
            throw StartupError("registry: \(error)")
        }
    }

    /// No core is ever written: it would hold keys, passphrases and what patients sent.
    static func forbidCoreDumps() {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
    }

    /// As many descriptors as this process may have at all, and a word if that is less than the conf file promises.
    static func raiseDescriptorLimit(for blueprint: Blueprint, _ logger: Logger) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        // A connection takes one, and one more upstream.
        let wanted = blueprint.workers * blueprint.settings.connections * 2
        if limit.rlim_max < rlim_t(wanted) {
            logger.warning(
                """
                this process may open \(limit.rlim_max) files; all connections of limits.connections would take \(wanted): \
                raise LimitNOFILE
                """)
        }
    }
}
