internal import Bytes
internal import Gateway
internal import Registry
internal import TLS
internal import Tracing

/// What a worker needs to make a generation: a configuration, read and resolved, and what outlives configurations.
struct GenerationOrder: Sendable {
    /// Counts the configurations of this process, from 1.
    let number: Int
    var blueprint: Blueprint
    let sessions: SessionTable
    /// What was counted stays counted, whatever is loaded.
    let limits: SharedLimits
    /// Of the process.
    let memory: MemoryBudget
    let log: LogWriter?
    /// Where goes what is no request, where requests are not logged.
    let errors: LogWriter
    /// Nil if no spans are exported.
    let exporter: SpanExporter?
    /// Nil if there is no registry.
    var enforcement: (settings: Enforcement.Settings, registry: DeviceRegistry)?
}
