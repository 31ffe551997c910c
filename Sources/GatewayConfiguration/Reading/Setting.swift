/// What one key of the conf file is: the row of a table from which files are read, keys suggested and
/// `conf/attestgate.yaml` checked.
public struct Setting: Equatable, Sendable {
    /// What happens when the key is missing.
    public enum Absence: Equatable, Sendable {
        /// The conf file is refused.
        case refused
        /// The setting does not apply.
        case allowed
        /// As if this had been written.
        case means(String)
    }

    public let name: String
    /// What the value must be: "a duration from 100ms to 5m".
    public let type: String
    /// What is counted, or from where to where the time runs.
    public let unit: String?
    public let absence: Absence
    /// What it is for, in a sentence.
    public let summary: String
}

/// One mapping of the conf file and all keys that may stand in it.
public struct Section: Equatable, Sendable {
    /// The way there from the top: `listeners.tls`. Empty for the top itself.
    public let path: String
    public let settings: [Setting]
    /// Names that keys had in earlier versions, and what they are called now.
    var former: [String: String] = [:]

    /// Every section there is.
    public static let all: [Section] = [
        Configuration.Keys.section, ListenerConfiguration.Keys.section, ProxyProtocolConfiguration.Keys.section,
        ListenerConfiguration.TLS.Keys.section, ListenerConfiguration.Clients.Keys.section,
        ListenerConfiguration.Host.Keys.section, UpstreamConfiguration.Keys.section,
        EjectionConfiguration.Keys.section, HealthCheckConfiguration.Keys.section,
        UpstreamTLSConfiguration.Keys.section,
        ResolverConfiguration.Keys.section, RouteConfiguration.Keys.section, AppConfiguration.Keys.section,
        RegistryConfiguration.Keys.section, PostgreSQLConfiguration.Keys.section,
        PostgreSQLConfiguration.TLS.Keys.section,
        EnrolmentConfiguration.Keys.section, ProxyProtocolConfiguration.enrolmentSection,
        EnrolmentConfiguration.tlsSection,
        EnrolmentAuthorityConfiguration.Keys.section, AdmissionTokenConfiguration.Draft.Keys.section,
        ReceiptsConfiguration.Keys.section,
        AdministrationConfiguration.Keys.section,
        AdministrationListenerConfiguration.Keys.section, AdministrationListenerConfiguration.TLS.Keys.section,
        ListenerConfiguration.Clients.AdministrationKeys.section, ProofConfiguration.Keys.section,
        LimitsConfiguration.Keys.section,
        TimeoutsConfiguration.Keys.section, LogConfiguration.Keys.section,
    ]

    var names: [String] { settings.map(\.name) }
}
