internal import Enrolment
internal import GatewayConfiguration

extension IssuerKeySettings {
    /// Reads the authorities.
    ///
    /// - Parameters:
    ///   - issuer: The issuer whose metadata names the keys. Nil if the URL is that of the keys.
    ///   - url: The URL of the keys or of the issuer.
    ///   - warnings: Receives doubtful settings.
    init(
        _ token: AdmissionTokenConfiguration, of issuer: String? = nil, at url: OutboundURL,
        _ configuration: Configuration, warnings: inout [StartupWarning]
    ) throws(StartupError) {
        let path = issuer == nil ? url.path : url.path + IssuerKeySettings.metadataPath
        self.init(
            service: try FetchedService(
                url, path: path.isEmpty ? "/" : path, authorities: token.authoritiesPath, timeout: token.timeout,
                of: "token", configuration, warnings: &warnings),
            content: issuer.map { .metadata(issuer: $0) } ?? .keys, interval: token.interval.components.seconds,
            retry: token.retry.components.seconds, staleAfter: token.staleAfter.components.seconds)
    }
}
