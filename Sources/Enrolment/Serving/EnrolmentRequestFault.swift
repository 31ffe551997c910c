internal import HTTP

/// Why a request is refused before any endpoint has looked at its content. Answered with codes of the one table, and with
/// the status that HTTP has for it.
enum EnrolmentRequestFault: Error, Equatable, Sendable {
    case malformed(MessageFault)
    case endpointUnknown
    /// - allowed: the value of Allow.
    case methodRefused(allowed: String)
    case queryRefused
    /// Content where there is none to be.
    case contentRefused
    case mediaTypeRefused
    /// - limit: in bytes.
    case contentTooLarge(limit: Int)
    case timeout
    /// The client's address has asked too often. - retryAfter: in seconds.
    case tooManyRequests(retryAfter: Int)

    var status: UInt16 {
        switch self {
        case .malformed(let fault):
            switch fault.kind {
            case .malformed, .fieldRefused: 400
            case .targetTooLong: 414
            case .headTooLarge: 431
            }
        case .endpointUnknown: 404
        case .methodRefused: 405
        case .queryRefused, .contentRefused: 400
        case .mediaTypeRefused: 415
        case .contentTooLarge: 413
        case .timeout: 408
        case .tooManyRequests: 503
        }
    }

    var error: EnrolmentError {
        switch self {
        case .endpointUnknown: .notFound
        case .tooManyRequests: .temporarilyUnavailable
        case .malformed, .methodRefused, .queryRefused, .contentRefused, .mediaTypeRefused, .contentTooLarge, .timeout:
            .badRequest
        }
    }

    var allowed: String? {
        if case .methodRefused(let allowed) = self { allowed } else { nil }
    }

    var retryAfter: Int? {
        if case .tooManyRequests(let seconds) = self { seconds } else { nil }
    }

    /// One sentence, for the developer of the client.
    var description: String {
        switch self {
        case .malformed(let fault): "The request is refused: \(fault.reason)."
        case .endpointUnknown: "There is no such endpoint."
        case .methodRefused(let allowed): "The endpoint allows only \(allowed)."
        case .queryRefused: "The endpoint accepts no query."
        case .contentRefused: "The endpoint accepts no content."
        case .mediaTypeRefused: "The content must be application/json."
        case .contentTooLarge(let limit): "The content is larger than \(limit) bytes."
        case .timeout: "The request did not arrive in time."
        case .tooManyRequests: "Too many requests from this address: try again later."
        }
    }
}
