package import Tracing

/// Which requests have spans, and how many spans a worker holds.
package struct TracingSettings: Equatable, Sendable {
    /// Of the traces that begin here, one in so many.
    let sample: UInt64
    let limits: SpanQueue.Limits

    package init(sample: UInt64, limits: SpanQueue.Limits) {
        self.sample = sample
        self.limits = limits
    }
}
