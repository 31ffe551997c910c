internal import Bytes
internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import Logging
internal import TLS
internal import Telemetry
internal import TelemetryExport

/// What a process opens once for all its workers and generations.
enum ProcessResources {
    /// Makes the loggers of the process, for standard error.
    static func loggers(_ blueprint: Blueprint, _ writer: LogWriter) -> (Logger, AuditLog) {
        let log = blueprint.configuration.log
        let audit = Logger(label: "attestgate.audit") { _ in
            var handler = log.errorLog(writer)
            handler.logLevel = min(handler.logLevel, .notice)
            return handler
        }
        return (Logger(label: "attestgate") { _ in log.errorLog(writer) }, AuditLog(logger: audit))
    }

    /// Opens what the first generation needs.
    static func firstOrder(
        _ blueprint: Blueprint, memory: MemoryBudget, errors: LogWriter, _ logger: Logger
    ) throws(StartupError) -> GenerationOrder {
        let exporter = try openExporter(blueprint, logger)
        let order = GenerationOrder(
            blueprint, sessions: SessionTable(limit: sessionLimit), limits: SharedLimits(), memory: memory,
            log: try openLog(blueprint, logger), errors: errors, exporter: exporter)
        order.shareSessions()
        return order
    }

    /// The maximum of stored TLS sessions: about 130 MB when the table is full.
    private static let sessionLimit = 20_000

    /// Opens the access log.
    ///
    /// - Returns: Nil if access is not logged.
    private static func openLog(_ blueprint: Blueprint, _ logger: Logger) throws(StartupError) -> LogWriter? {
        guard let destination = blueprint.configuration.log.accessDestination else { return nil }
        do throws(EventLoopError) {
            return try LogWriter(destination) { turn in
                switch turn {
                case .failed(let errno):
                    logger.error(
                        "access log: \(EventLoopError.text(of: errno)): records are lost until it can be written again")
                case .recovered: logger.notice("access log: can be written again")
                }
            }
        } catch {
            var subject: Subject?
            if case .file(let path) = destination { subject = .file(path) }
            throw StartupError("log: access: \(error.text)", of: subject)
        }
    }

    /// Starts the span exporter.
    ///
    /// - Returns: Nil if no spans are exported.
    static func openExporter(_ blueprint: Blueprint, _ logger: Logger) throws(StartupError) -> SpanExporter? {
        guard let tracing = blueprint.tracing else { return nil }
        do throws(EventLoopError) {
            return try SpanExporter(tracing.export) { text, isFault in
                if isFault { logger.warning("tracing: \(text)") } else { logger.notice("tracing: \(text)") }
            }
        } catch {
            throw StartupError("tracing: \(error.text)")
        }
    }

    /// Reopens the access log after logrotate has moved the file.
    ///
    /// - Returns: Whether there was a log file to reopen.
    /// - Throws: The reason why the old file is still in use.
    @discardableResult
    static func reopen(_ log: LogWriter?, _ logger: Logger) throws(StartupError) -> Bool {
        do throws(EventLoopError) {
            guard try log?.reopen() == true else {
                logger.info("there is no access log file to reopen")
                return false
            }
            logger.info("access log reopened")
            return true
        } catch {
            logger.error("access log not reopened, the old file is still in use: \(error.text)")
            throw StartupError(error.text)
        }
    }

    /// Disables core dumps: they would contain keys, passphrases and what patients sent.
    static func forbidCoreDumps() {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
    }

    /// Raises the limit of descriptors to the maximum, and warns if the configuration can need more.
    static func raiseDescriptorLimit(for blueprint: Blueprint, _ logger: Logger) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        if let warning = blueprint.descriptorWarning { logger.warning("\(warning)") }
    }
}
