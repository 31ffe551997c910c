internal import Enrolment
internal import EventLoop
internal import GatewayConfiguration
internal import TLS
internal import Upstream

extension FetchedService {
    /// Reads the authorities, and refuses a service at an address of the gateway itself.
    ///
    /// - Parameters:
    ///   - url: The service, which need not have the path.
    ///   - authorities: The path of a PEM file, which is read for https alone.
    ///   - section: The section of the conf file, for messages.
    ///   - warnings: Receives doubtful settings.
    init(
        _ url: OutboundURL, path: String, authorities: String, timeout: Duration, of section: String,
        _ configuration: Configuration, warnings: inout [StartupWarning]
    ) throws(StartupError) {
        let tls = url.isEncrypted ? try OutboundService.tls(authorities, of: section, &warnings) : nil
        let upstream = try OutboundService.upstream(
            url, tls, of: section, connections: 1, timeout: TimeSpan(timeout))
        let forbidden = try ForbiddenAddresses(configuration)
        try UpstreamSettings.check([upstream], against: forbidden)
        self.init(
            url: url.text, host: url.authority, path: path, upstream: upstream,
            resolver: try ResolverSettings(configuration.resolver), forbidden: forbidden, timeout: TimeSpan(timeout))
    }
}
