internal import Gateway
internal import Registry
internal import TLS

/// What a worker needs to make a generation: a configuration, read and resolved, and what outlives configurations.
struct GenerationOrder: Sendable {
    /// Counts the configurations of this process, from 1.
    let number: Int
    var blueprint: Blueprint
    let sessions: SessionTable
    /// What was counted stays counted, whatever is loaded.
    let limits: SharedLimits
    let log: LogWriter?
    /// Nil if there is no registry.
    let enforcement: (settings: Enforcement.Settings, registry: DeviceRegistry)?
}
