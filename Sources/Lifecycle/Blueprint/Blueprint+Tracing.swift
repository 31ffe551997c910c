internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import TLS
internal import Tracing
internal import Upstream

/// How spans are exported, the files read.
struct TracingBlueprint: Sendable {
    let requests: TracingSettings
    let export: ExportSettings
    /// What is doubtful in the files.
    let warnings: [StartupWarning]

    /// Where the collector is, if known by a name.
    var servers: Set<NamedServer> { Set(export.upstream.servers.compactMap(\.resolved)) }

    init(_ tracing: TracingConfiguration, _ configuration: Configuration) throws(StartupError) {
        requests = TracingSettings(
            sample: UInt64(tracing.sample),
            limits: SpanQueue.Limits(
                octets: tracing.queue, requestsPerSecond: tracing.requestsPerSecond,
                interval: TimeSpan(tracing.interval)))
        var doubts: [StartupWarning] = []
        let tls =
            tracing.endpoint.isEncrypted
            ? try OutboundService.tls(tracing.authoritiesPath, of: "tracing", &doubts) : nil
        warnings = doubts
        let upstream = try OutboundService.upstream(
            tracing.endpoint, tls, of: "tracing", connections: 1, timeout: TimeSpan(tracing.timeout))
        let forbidden = try ForbiddenAddresses(configuration)
        try Blueprint.check([upstream], against: forbidden)
        export = ExportSettings(
            host: tracing.endpoint.authority, path: tracing.endpoint.path, upstream: upstream,
            resolver: try ResolverSettings(configuration.resolver), forbidden: forbidden,
            timeout: TimeSpan(tracing.timeout), token: try Self.token(tracing.tokenPath),
            resource: Self.resource(tracing.serviceName), version: GatewayVersion.text)
    }

    /// Of printable characters without spaces, so that no field can follow it; line ends at its end are the file's.
    private static func token(_ path: String?) throws(StartupError) -> String? {
        guard let path else { return nil }
        var bytes: [UInt8]
        do { bytes = try FileContents.readPrivate(path) } catch {
            throw StartupError(in: "tracing: token_file", error)
        }
        while let last = bytes.last, last == 0x0a || last == 0x0d { bytes.removeLast() }
        guard (1...4_096).contains(bytes.count), bytes.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw StartupError(
                "tracing: token_file: \(path): it must be one line of printable characters without spaces",
                of: .file(path))
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// By the semantic conventions for resources. The instance is new with each process, as they want it.
    private static func resource(_ name: String) -> [(key: String, value: ResourceValue)] {
        let version = GatewayVersion.text
        return [
            ("service.name", .text(name)), ("service.version", .text(version)),
            ("service.instance.id", .text(instance)),
            ("process.pid", .number(Int(getpid()))), ("host.name", .text(hostName)),
            ("telemetry.sdk.name", .text("attestgate")), ("telemetry.sdk.language", .text("swift")),
            ("telemetry.sdk.version", .text(version)),
        ]
    }

    /// A UUID of version 4 (RFC 9562 section 5.4).
    private static let instance: String = {
        var random = SystemRandomNumberGenerator()
        let high: UInt64 = random.next() & 0xffff_ffff_ffff_0fff | 0x4000
        let low: UInt64 = random.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
        let digits = [high, low].map { number in
            let text = String(number, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }.joined()
        var text = ""
        for (index, digit) in digits.enumerated() { text += ([8, 12, 16, 20].contains(index) ? "-" : "") + "\(digit)" }
        return text
    }()

    private static var hostName: String {
        var system = utsname()
        guard uname(&system) == 0 else { return "" }
        return withUnsafeBytes(of: system.nodename) { bytes in
            // The kernel ends it with a NUL within its array.
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
