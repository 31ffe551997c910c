public import EventLoop

/// Why a health check has not passed.
public enum HealthCheckFailure: Equatable, Sendable {
    case upstream(UpstreamFailure)
    /// It was answered, but not so. - expected: nil for 200 to 299.
    case status(UInt16, expected: UInt16?)
    /// It took longer than a check may, to the end of the answer.
    case timeout(TimeSpan)

    /// For logs.
    public var text: String {
        switch self {
        case .upstream(let failure): failure.text
        case .status(let status, let expected): "status \(status), expected \(expected.map { "\($0)" } ?? "200 to 299")"
        case .timeout(let span): "no complete response within \(span.nanoseconds / 1_000_000) ms"
        }
    }
}
