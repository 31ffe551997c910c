internal import Cryptography
package import Gateway
internal import Vocabulary

/// The error codes of the endpoints: those of RFC 6749, 6750 and 7009, and of this program.
public enum FederationError: String, CaseIterable, Sendable {
    case invalidRequest = "invalid_request"
    case invalidClient = "invalid_client"
    case invalidGrant = "invalid_grant"
    case unauthorizedClient = "unauthorized_client"
    case unsupportedGrantType = "unsupported_grant_type"
    case invalidScope = "invalid_scope"
    case invalidToken = "invalid_token"
    case accessDenied = "access_denied"
    case notFound = "not_found"
    case temporarilyUnavailable = "temporarily_unavailable"
    case serverError = "server_error"
    /// The device or its proof is refused. The code in the answer is that of the gateway's denial.
    case denied

    var status: UInt16 {
        switch self {
        case .invalidRequest, .invalidGrant, .unauthorizedClient, .unsupportedGrantType, .invalidScope: 400
        case .invalidClient, .invalidToken, .denied: 401
        case .accessDenied: 403
        case .notFound: 404
        case .temporarilyUnavailable: 503
        case .serverError: 500
        }
    }
}

/// A refusal of a request.
public struct FederationFault: Error, Equatable, Sendable {
    public let error: FederationError
    /// For the log and the developer of the client, without a capital letter and full stop. It contains nothing that
    /// was received.
    public let reason: String
    /// Overrides that of the error.
    private let ownStatus: UInt16?
    /// The value of Allow.
    let allowed: String?
    /// In seconds.
    let retryAfter: Int?
    /// The gateway's denial of a device or proof.
    let denial: Denial?
    /// What a proof did not cover.
    let component: String?
    /// Whether an operator must act.
    let isOurs: Bool

    init(
        _ error: FederationError, _ reason: String, status: UInt16? = nil, allowed: String? = nil,
        retryAfter: Int? = nil, isOurs: Bool = false
    ) {
        self.error = error
        self.isOurs = isOurs
        self.reason = reason
        ownStatus = status
        self.allowed = allowed
        self.retryAfter = retryAfter
        denial = nil
        component = nil
    }

    /// Creates the fault of a refused device or proof.
    package init(_ refusal: Refusal) {
        denial = refusal.denial
        error = refusal.denial == .storeUnavailable ? .temporarilyUnavailable : .denied
        reason = refusal.detail ?? "\(refusal.denial.row.code)"
        ownStatus = refusal.denial.status ?? 403
        allowed = nil
        isOurs = [.storeUnavailable, .internalError].contains(refusal.denial)
        retryAfter = refusal.denial == .storeUnavailable ? 5 : nil
        component = refusal.component
    }

    var status: UInt16 { ownStatus ?? error.status }
    /// The code in the answer.
    var code: String { denial.map { "\($0.row.code)" } ?? error.rawValue }

    static let storeUnavailable = FederationFault(
        .temporarilyUnavailable, "the registry is not available", retryAfter: 5, isOurs: true)

    static func invalidRequest(_ reason: String) -> FederationFault { FederationFault(.invalidRequest, reason) }

    static func checkFailed(_ error: CryptographyError) -> FederationFault {
        FederationFault(.serverError, "a check failed to run: \(error)", isOurs: true)
    }

    /// Runs a computation whose failure is not the client's.
    static func checking<Value>(
        _ body: () throws(CryptographyError) -> Value
    ) throws(FederationFault) -> Value {
        do throws(CryptographyError) { return try body() } catch { throw .checkFailed(error) }
    }
}
