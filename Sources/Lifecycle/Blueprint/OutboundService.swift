internal import EventLoop
internal import GatewayConfiguration
internal import TLS
internal import Upstream

/// A service that this process asks something of its own: how it is reached.
enum OutboundService {
    /// - Parameters:
    ///   - path: of a PEM file.
    ///   - section: of the conf file, for messages.
    ///   - warnings: what is doubtful in the file is added.
    static func tls(
        _ path: String, of section: String, _ warnings: inout [StartupWarning]
    ) throws(StartupError) -> ClientContext.Settings {
        do {
            // Another package's mistake, or an operator's who added a service's own certificate, is no reason not to start.
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
            // What these services offer is theirs to say: TLS 1.2 will do.
            return ClientContext.Settings(authorities: authorities, policy: .intermediate)
        } catch {
            throw StartupError(in: "\(section): authorities: \(path)", error, of: .file(path))
        }
    }

    /// One server.
    ///
    /// - Parameters:
    ///   - connections: as many as calls.
    ///   - timeout: of a call as a whole.
    static func upstream(
        _ url: OutboundURL, _ tls: ClientContext.Settings?, of section: String, connections: Int, timeout: TimeSpan
    ) throws(StartupError) -> UpstreamSettings {
        var server = try UpstreamSettings.Server(url.server, of: section)
        if tls != nil { server.certificateName = url.server.host }
        var upstream = UpstreamSettings(name: section, servers: [server])
        upstream.tls = tls
        upstream.connections = connections
        upstream.idleConnections = connections
        upstream.waiting = connections
        // The time of the call as a whole is what counts.
        upstream.connectTimeout = timeout
        upstream.waitingTimeout = timeout
        upstream.responseTimeout = timeout
        upstream.contentTimeout = timeout
        upstream.idleTimeout = .seconds(30)
        return upstream
    }
}
