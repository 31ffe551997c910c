package import Upstream

/// The answer of a service from which content is fetched, before its content is judged.
package enum FetchAnswer {
    case content(OutboundAnswer)
    /// The kept content is still the service's: 304.
    case unchanged(maxAge: Int64?)
    /// The content is longer than accepted.
    case tooLong
    /// There is no answer, or an unexpected one. Redirects are among them and are not followed.
    ///
    /// - reason: A word for logs, followed by details.
    case failed(String, retryAfter: Int64?)

    /// Judges the result of a call.
    ///
    /// - Parameter isConditional: Whether the request named content that is kept.
    package init(_ result: Result<OutboundAnswer, OutboundFailure>, isConditional: Bool) {
        switch result {
        case .failure(.contentTooLarge(status: 200)): self = .tooLong
        case .failure(let failure): self = .failed(failure.reason, retryAfter: nil)
        case .success(let answer):
            switch answer.status {
            case 200: self = .content(answer)
            case 304 where isConditional: self = .unchanged(maxAge: answer.maxAge)
            case 429: self = .failed("throttled: status 429", retryAfter: answer.retryAfter)
            case 500...599: self = .failed("server_error: status \(answer.status)", retryAfter: answer.retryAfter)
            default: self = .failed("unexpected_status: \(answer.status)", retryAfter: nil)
            }
        }
    }
}
