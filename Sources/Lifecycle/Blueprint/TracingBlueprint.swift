internal import Encoding
internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import TLS
internal import TelemetryExport
internal import Upstream

/// The settings of span export, with all files read.
struct TracingBlueprint: Sendable {
    let requests: TracingSettings
    let export: ExportSettings
    /// Doubtful contents of the files.
    let warnings: [StartupWarning]

    /// The collector's server, if it is configured by name.
    var servers: Set<NamedServer> { Set(export.upstream.servers.compactMap(\.resolved)) }

    init(_ tracing: TracingConfiguration, _ configuration: Configuration) throws(StartupError) {
        requests = TracingSettings(
            sample: UInt64(tracing.sample),
            limits: SpanQueue.Limits(
                bytes: tracing.queue, requestsPerSecond: tracing.requestsPerSecond,
                interval: TimeSpan(tracing.interval)))
        var doubts: [StartupWarning] = []
        let tls =
            tracing.endpoint.isEncrypted
            ? try OutboundService.tls(tracing.authoritiesPath, of: "tracing", &doubts) : nil
        warnings = doubts
        let upstream = try OutboundService.upstream(
            tracing.endpoint, tls, of: "tracing", connections: 1, timeout: TimeSpan(tracing.timeout))
        let forbidden = try ForbiddenAddresses(configuration)
        try UpstreamSettings.check([upstream], against: forbidden)
        export = ExportSettings(
            host: tracing.endpoint.authority, path: tracing.endpoint.path, upstream: upstream,
            resolver: try ResolverSettings(configuration.resolver), forbidden: forbidden,
            timeout: TimeSpan(tracing.timeout), token: try FileContents.token(tracing.tokenPath, of: "tracing"),
            resource: Self.resource(tracing.serviceName), version: GatewayVersion.text)
    }

    /// Attributes by the semantic conventions for resources. Each process has a new instance id, as they demand.
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
        let digits = Hexadecimal.encode(high, digits: 16) + Hexadecimal.encode(low, digits: 16)
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

/// The way to a service that this process itself calls.
enum OutboundService {
    /// Reads the authorities of a service.
    ///
    /// - Parameters:
    ///   - path: The path of a PEM file.
    ///   - section: The section of the conf file, for messages.
    ///   - warnings: Receives doubtful contents of the file.
    static func tls(
        _ path: String, of section: String, _ warnings: inout [StartupWarning]
    ) throws(StartupError) -> ClientContext.Settings {
        do {
            // An error in a package of certificates, or of an operator who added a service's own certificate, does
            // not prevent the start.
            let authorities = try TrustedAuthorities(
                pem: [try FileContents.read(path)], skipsOthers: path == ReceiptsConfiguration.systemBundle)
            guard !authorities.certificates.isEmpty else {
                throw StartupError("it contains no certificate of a certification authority")
            }
            if authorities.skipped > 0 {
                warnings.append(
                    StartupWarning(
                        "\(section): authorities: \(path): ignored certificates that are not of a certification authority:"
                            + " \(authorities.skipped)", of: .file(path)))
            }
            // These services choose their own TLS settings: TLS 1.2 suffices.
            return ClientContext.Settings(authorities: authorities, policy: .intermediate)
        } catch {
            throw StartupError(in: "\(section): authorities: \(path)", error, of: .file(path))
        }
    }

    /// Returns an upstream with one server.
    ///
    /// - Parameters:
    ///   - connections: As many as concurrent calls.
    ///   - timeout: The timeout of a whole call.
    static func upstream(
        _ url: OutboundURL, _ tls: ClientContext.Settings?, of section: String, connections: Int, timeout: TimeSpan
    ) throws(StartupError) -> UpstreamSettings {
        var server = try UpstreamSettings.Server(url.server, of: section)
        if tls != nil { server.certificateName = url.server.host }
        return upstream(server, tls, of: section, connections: connections, timeout: timeout)
    }

    /// Returns an upstream for a server.
    ///
    /// - Parameter server: Of a template, one that is replaced for each call.
    static func upstream(
        _ server: UpstreamSettings.Server, _ tls: ClientContext.Settings?, of section: String, connections: Int,
        timeout: TimeSpan
    ) -> UpstreamSettings {
        var upstream = UpstreamSettings(name: section, servers: [server])
        upstream.tls = tls
        upstream.connections = connections
        upstream.idleConnections = connections
        upstream.waiting = connections
        // The timeout of the whole call applies.
        upstream.connectTimeout = timeout
        upstream.waitingTimeout = timeout
        upstream.responseTimeout = timeout
        upstream.contentTimeout = timeout
        upstream.idleTimeout = .seconds(30)
        return upstream
    }
}
