/// All refusals of the gateway. Each case is one row of the table, and nothing else is refused.
///
/// `docs/denials.md` is generated from this table. A test compares them, and rewrites the page on request
/// (`ATTESTGATE_UPDATE_DOCS=1 scripts/test unit DenialPage`).
public enum Denial: UInt8, CaseIterable, Sendable {
    // Before the TLS handshake.
    case peerRefused
    case proxyHeaderRefused
    // The TLS handshake.
    case certificateRequired
    case certificateUnknownAuthority
    case certificateExpired
    case certificateUnsuitable
    case certificateRevoked
    case crlStale
    case certificateNotPinned
    case deviceRevokedInHandshake
    case bindingEndedInHandshake
    case handshakeFailed
    case handshakeTimeout
    // The connection.
    case connectionLimit
    case protocolBroken
    case protocolAbused
    // The message.
    case requestMalformed
    case headerRefused
    case contentTooLarge
    case targetTooLong
    case headTooLarge
    case requestTimeout
    case rateLimited
    case webSocketVersion
    // The route.
    case certificateInvalid
    case misdirected
    case routeUnknown
    case methodRefused
    case certificateAbsent
    // The device.
    case deviceUnknown
    case deviceRevoked
    case deviceMismatch
    case deviceRisky
    case osOutdated
    case appRefused
    case policyDenied
    case deviceTunnelLimit
    case deviceRequestLimit
    case deviceTokenRequired
    case deviceTokenInvalid
    // The client attestation.
    case attestationChallengeRequired
    case attestationStale
    case attestationInvalid
    // The proof.
    case proofRequired
    case proofMalformed
    case challengeRequired
    case proofStale
    case proofIncomplete
    case proofInvalid
    case bodyDigestMismatch
    // The counter.
    case counterReplayed
    case counterLate
    // The gateway.
    case storeUnavailable
    case policyUnavailable
    case overloaded
    case internalError
    // The upstream.
    case upstreamUnavailable
    case upstreamTimeout
    case upstreamBusy
    case tunnelLimit
    // The client does not receive the answer.
    case responseNotTaken
}

extension Denial {
    /// The form of the answer to the client.
    public enum Answer: Equatable, Sendable {
        /// An HTTP response with this status.
        case status(UInt16)
        /// A fatal TLS alert with this description (RFC 8446 section 6.2). There is no HTTP, except where a proxy terminates
        /// the client's TLS: then 401.
        case alert(Alert)
        /// A fatal TLS alert according to the fault: protocol_version, no_application_protocol, decode_error and
        /// others.
        case fittingAlert
        /// The connection is closed without an answer, because no client can receive it.
        case close
        /// GOAWAY of HTTP/2 with a code according to the fault (RFC 9113 section 7). The connection is closed.
        case goAway
    }

    /// TLS alert descriptions, with their numbers on the wire (RFC 8446 appendix B.2).
    public enum Alert: UInt8, Sendable {
        case badCertificate = 42
        case unsupportedCertificate = 43
        case certificateRevoked = 44
        case certificateExpired = 45
        case certificateUnknown = 46
        case unknownAuthority = 48
        case certificateRequired = 116

        public var name: String {
            switch self {
            case .badCertificate: "bad_certificate"
            case .unsupportedCertificate: "unsupported_certificate"
            case .certificateRevoked: "certificate_revoked"
            case .certificateExpired: "certificate_expired"
            case .certificateUnknown: "certificate_unknown"
            case .unknownAuthority: "unknown_ca"
            case .certificateRequired: "certificate_required"
            }
        }
    }

    /// The responsible party, for the engineer on call.
    public enum Fault: String, Sendable {
        case client
        case upstream
        case gateway
    }

    /// Whether the same request may be sent again.
    public enum Retry: String, Sendable {
        /// No complete request reached the upstream. It may be sent again, corrected or later.
        case safe
        /// The upstream may have executed the request. Only an idempotent request may be sent again.
        case unknown
    }

    /// One row of the table.
    public struct Row: Sendable {
        /// The constant code: JSON member `error`, log field `denial` and metric label. It is never renamed.
        public let code: StaticString
        public let answer: Answer
        public let fault: Fault
        public let retry: Retry
        /// The message for the client, one sentence.
        public let sentence: StaticString
    }

    public var row: Row {
        switch self {
        case .peerRefused:
            Row(
                code: "peer_refused", answer: .close, fault: .client, retry: .safe,
                sentence: "The listener does not admit the peer's user or network.")
        case .proxyHeaderRefused:
            Row(
                code: "proxy_header_refused", answer: .close, fault: .gateway, retry: .safe,
                sentence: "The connection of a trusted proxy did not begin with a valid PROXY header in time.")
        case .certificateRequired:
            Row(
                code: "certificate_required", answer: .alert(.certificateRequired), fault: .client, retry: .safe,
                sentence: "The client presented no certificate.")
        case .certificateUnknownAuthority:
            Row(
                code: "certificate_unknown_authority", answer: .alert(.unknownAuthority), fault: .client, retry: .safe,
                sentence: "The client certificate was not issued by an authority this listener trusts.")
        case .certificateExpired:
            Row(
                code: "certificate_expired", answer: .alert(.certificateExpired), fault: .client, retry: .safe,
                sentence: "The client certificate, or one of its issuers', is outside its validity period.")
        case .certificateUnsuitable:
            Row(
                code: "certificate_unsuitable", answer: .alert(.unsupportedCertificate), fault: .client, retry: .safe,
                sentence: "The client certificate cannot be used here: wrong key, purpose, signature or extension.")
        case .certificateRevoked:
            Row(
                code: "certificate_revoked", answer: .alert(.certificateRevoked), fault: .client, retry: .safe,
                sentence: "The client certificate, or one of its issuers', is on its authority's revocation list.")
        case .crlStale:
            Row(
                code: "crl_stale", answer: .alert(.certificateUnknown), fault: .gateway, retry: .safe,
                sentence: "The gateway has no fresh revocation list of the certificate's authority.")
        case .certificateNotPinned:
            Row(
                code: "certificate_not_pinned", answer: .alert(.badCertificate), fault: .client, retry: .safe,
                sentence: "The client certificate has none of the keys or names that this listener accepts.")
        // These codes are those of refused requests, so that a search finds both.
        case .deviceRevokedInHandshake:
            Row(
                code: "device_revoked", answer: .alert(.certificateRevoked), fault: .client, retry: .safe,
                sentence: "In the handshake: the device that the client certificate belongs to has been revoked.")
        case .bindingEndedInHandshake:
            Row(
                code: "device_mismatch", answer: .alert(.certificateRevoked), fault: .client, retry: .safe,
                sentence: "In the handshake: the binding of the client certificate's key to its device has ended.")
        case .handshakeFailed:
            Row(
                code: "handshake_failed", answer: .fittingAlert, fault: .client, retry: .safe,
                sentence: "The TLS handshake failed.")
        case .handshakeTimeout:
            Row(
                code: "handshake_timeout", answer: .close, fault: .client, retry: .safe,
                sentence: "The TLS handshake was not finished in time.")
        case .connectionLimit:
            Row(
                code: "connection_limit", answer: .close, fault: .gateway, retry: .safe,
                sentence:
                    "The limit of connections or handshakes, in total or of this address, is reached.")
        case .protocolBroken:
            Row(
                code: "protocol_broken", answer: .goAway, fault: .client, retry: .unknown,
                sentence: "The client violated HTTP/2 on the whole connection; its requests were cut off."
            )
        case .protocolAbused:
            Row(
                code: "protocol_abused", answer: .goAway, fault: .client, retry: .unknown,
                sentence: "The client exceeded a rate of costly HTTP/2 frames; its requests were cut off."
            )
        case .requestMalformed:
            Row(
                code: "request_malformed", answer: .status(400), fault: .client, retry: .safe,
                sentence: "The request is not a well-formed HTTP request.")
        case .headerRefused:
            Row(
                code: "header_refused", answer: .status(400), fault: .client, retry: .safe,
                sentence: "The request has a header field that is refused here.")
        case .contentTooLarge:
            Row(
                code: "too_large", answer: .status(413), fault: .client, retry: .safe,
                sentence: "The content of the request is larger than this route allows.")
        case .targetTooLong:
            Row(
                code: "too_large", answer: .status(414), fault: .client, retry: .safe,
                sentence: "The target of the request is longer than the gateway allows.")
        case .headTooLarge:
            Row(
                code: "too_large", answer: .status(431), fault: .client, retry: .safe,
                sentence: "The head of the request is larger, or has more fields, than the gateway allows.")
        case .requestTimeout:
            Row(
                code: "request_timeout", answer: .status(408), fault: .client, retry: .safe,
                sentence: "The request did not arrive in time.")
        case .rateLimited:
            Row(
                code: "rate_limited", answer: .status(429), fault: .client, retry: .safe,
                sentence: "Too many requests: try again after the time of Retry-After.")
        case .webSocketVersion:
            Row(
                code: "websocket_version", answer: .status(426), fault: .client, retry: .safe,
                sentence: "Only WebSocket version 13 is supported.")
        case .certificateInvalid:
            Row(
                code: "certificate_invalid", answer: .status(400), fault: .gateway, retry: .safe,
                sentence: "The proxy that terminates TLS stated no readable client certificate.")
        case .misdirected:
            Row(
                code: "misdirected", answer: .status(421), fault: .client, retry: .safe,
                sentence: "The connection is for another host or port than the request names: connect to that one.")
        case .routeUnknown:
            Row(
                code: "route_unknown", answer: .status(404), fault: .client, retry: .safe,
                sentence: "No route is configured for this host and path.")
        case .methodRefused:
            Row(
                code: "method_refused", answer: .status(405), fault: .client, retry: .safe,
                sentence: "The route does not allow this method.")
        // The code of the handshake, so that a search finds both.
        case .certificateAbsent:
            Row(
                code: "certificate_required", answer: .status(403), fault: .client, retry: .safe,
                sentence: "This route requires a client certificate: connect again and present one.")
        case .deviceUnknown:
            Row(
                code: "device_unknown", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The key of the client certificate is not bound to a registered device: enrol first.")
        case .deviceRevoked:
            Row(
                code: "device_revoked", answer: .status(403), fault: .client, retry: .safe,
                sentence: "The device that the client certificate belongs to has been revoked.")
        case .deviceMismatch:
            Row(
                code: "device_mismatch", answer: .status(403), fault: .client, retry: .safe,
                sentence:
                    "The proof, or an ended binding, belongs to another device than the client certificate.")
        case .deviceRisky:
            Row(
                code: "device_risky", answer: .status(403), fault: .client, retry: .safe,
                sentence:
                    "Too many keys were attested on this device recently for its app, or its attestation was revoked."
            )
        case .osOutdated:
            Row(
                code: "os_outdated", answer: .status(403), fault: .client, retry: .safe,
                sentence: "The device's system version is below the minimum: update the system and enrol again.")
        case .appRefused:
            Row(
                code: "app_refused", answer: .status(403), fault: .client, retry: .safe,
                sentence: "This route does not allow the app, or not in the form that this device has.")
        case .policyDenied:
            Row(
                code: "policy_denied", answer: .status(403), fault: .client, retry: .safe,
                sentence: "The policy of this route refuses the request, or the device as it is now.")
        case .deviceTunnelLimit:
            Row(
                code: "device_tunnel_limit", answer: .status(429), fault: .client, retry: .safe,
                sentence:
                    "This device has reached its limit of open WebSockets: close one, make a new proof and try again.")
        case .deviceRequestLimit:
            Row(
                code: "device_request_limit", answer: .status(429), fault: .client, retry: .safe,
                sentence:
                    "This device has reached its limit of requests in flight: wait for responses and try again.")
        case .deviceTokenRequired:
            Row(
                code: "device_token_required", answer: .status(401), fault: .client, retry: .safe,
                sentence: "This route requires a device token: send it in X-Device-Token.")
        case .deviceTokenInvalid:
            Row(
                code: "device_token_invalid", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The device token has expired, or was not issued for this certificate: get a new one.")
        // The codes of draft-ietf-oauth-attestation-based-client-auth section 6.4.
        case .attestationChallengeRequired:
            Row(
                code: "use_attestation_challenge", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The proof of possession needs the challenge in OAuth-Client-Attestation-Challenge.")
        case .attestationStale:
            Row(
                code: "use_fresh_attestation", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The client attestation has expired or is too old: get a new one.")
        case .attestationInvalid:
            Row(
                code: "invalid_client_attestation", answer: .status(401), fault: .client, retry: .safe,
                sentence: "This route requires a valid client attestation with a new proof of possession.")
        case .proofRequired:
            Row(
                code: "proof_required", answer: .status(401), fault: .client, retry: .safe,
                sentence: "This route requires a proof: sign the request as Accept-Signature states.")
        case .proofMalformed:
            Row(
                code: "proof_malformed", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The proof of the request is malformed.")
        case .challengeRequired:
            Row(
                code: "challenge_required", answer: .status(401), fault: .client, retry: .safe,
                sentence:
                    "The challenge is missing, expired or unknown: sign with the one in Accept-Signature.")
        case .proofStale:
            Row(
                code: "proof_stale", answer: .status(401), fault: .client, retry: .safe,
                sentence:
                    "The proof is too old or from the future: compare the clock with Date and sign again.")
        case .proofIncomplete:
            Row(
                code: "proof_incomplete", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The proof does not cover all required components.")
        case .proofInvalid:
            Row(
                code: "proof_invalid", answer: .status(401), fault: .client, retry: .safe,
                sentence: "The proof was not made for this request by the hardware key of this device and app.")
        case .bodyDigestMismatch:
            Row(
                code: "body_digest_mismatch", answer: .status(400), fault: .client, retry: .safe,
                sentence: "The content of the request does not match its Content-Digest.")
        case .counterReplayed:
            Row(
                code: "counter_replayed", answer: .status(401), fault: .client, retry: .unknown,
                sentence:
                    "The counter was used before: make a new proof; the earlier request may have been executed."
            )
        case .counterLate:
            Row(
                code: "counter_late", answer: .status(401), fault: .client, retry: .unknown,
                sentence:
                    "The counter is behind others: make a new proof; the earlier request may have been executed."
            )
        case .storeUnavailable:
            Row(
                code: "store_unavailable", answer: .status(503), fault: .gateway, retry: .safe,
                sentence: "The gateway's registry is not available: make a new proof and try again later.")
        case .policyUnavailable:
            Row(
                code: "policy_unavailable", answer: .status(503), fault: .gateway, retry: .safe,
                sentence:
                    "The decision point of this route's policy gave no decision: make a new proof and try again later.")
        case .overloaded:
            Row(
                code: "overloaded", answer: .status(503), fault: .gateway, retry: .safe,
                sentence:
                    "The gateway is overloaded: make a new proof and try again later."
            )
        case .internalError:
            Row(
                code: "internal_error", answer: .status(500), fault: .gateway, retry: .unknown,
                sentence: "The gateway made an error: make a new proof and try again later.")
        case .upstreamUnavailable:
            Row(
                code: "upstream_unavailable", answer: .status(502), fault: .upstream, retry: .unknown,
                sentence: "The service behind the gateway could not be reached, or sent no valid response.")
        case .upstreamTimeout:
            Row(
                code: "upstream_timeout", answer: .status(504), fault: .upstream, retry: .unknown,
                sentence: "The service behind the gateway did not respond in time.")
        case .upstreamBusy:
            Row(
                code: "upstream_busy", answer: .status(503), fault: .gateway, retry: .safe,
                sentence:
                    "The service behind the gateway is overloaded: make a new proof and try again after the time of Retry-After."
            )
        case .tunnelLimit:
            Row(
                code: "tunnel_limit", answer: .status(503), fault: .gateway, retry: .safe,
                sentence:
                    "The limit of open WebSockets is reached: make a new proof and try again later."
            )
        case .responseNotTaken:
            Row(
                code: "response_not_taken", answer: .close, fault: .client, retry: .unknown,
                sentence: "The client did not receive the response in time; it was cut off.")
        }
    }

    /// Whether a route that observes forwards the request all the same. Everything about proofs, counters, tokens,
    /// unbound devices, versions and policies is observable. Revoked and risky devices, another device than the certificate's, limits, an
    /// unavailable registry and faults of the message never are.
    public var isObservable: Bool {
        switch self {
        case .deviceUnknown, .osOutdated, .appRefused, .policyDenied, .deviceTokenRequired, .deviceTokenInvalid,
            .proofRequired, .proofMalformed, .challengeRequired, .proofStale, .proofIncomplete, .proofInvalid,
            .bodyDigestMismatch, .counterReplayed, .counterLate:
            true
        case .peerRefused, .proxyHeaderRefused, .certificateRequired, .certificateUnknownAuthority, .certificateExpired,
            .certificateUnsuitable, .certificateRevoked, .crlStale, .certificateNotPinned, .deviceRevokedInHandshake,
            .bindingEndedInHandshake, .handshakeFailed, .handshakeTimeout, .connectionLimit, .protocolBroken,
            .protocolAbused, .requestMalformed, .headerRefused, .contentTooLarge, .targetTooLong, .headTooLarge,
            .requestTimeout, .rateLimited, .webSocketVersion, .certificateInvalid, .misdirected, .routeUnknown,
            .methodRefused, .certificateAbsent, .deviceRevoked, .deviceMismatch, .deviceRisky, .deviceTunnelLimit,
            .deviceRequestLimit, .attestationChallengeRequired, .attestationStale, .attestationInvalid,
            .storeUnavailable, .policyUnavailable, .overloaded, .internalError,
            .upstreamUnavailable, .upstreamTimeout, .upstreamBusy, .tunnelLimit, .responseNotTaken:
            false
        }
    }

    /// Whether the answer asks for a proof, with `Accept-Signature`. A 401 for a certificate or a client attestation does
    /// not.
    public var asksForProof: Bool { row.answer == .status(401) && !asksForAttestation }

    /// Whether the answer asks for a client attestation, as OAuth's resource servers do (RFC 6750 section 3).
    public var asksForAttestation: Bool {
        self == .attestationChallengeRequired || self == .attestationStale || self == .attestationInvalid
    }

    /// The HTTP status. Nil for denials without one.
    public var status: UInt16? {
        switch row.answer {
        case .status(let status): status
        // Of the certificate that a proxy states.
        case .alert: 401
        case .fittingAlert, .close, .goAway: nil
        }
    }
}

/// The gRPC status codes of denials, with their numbers on the wire (gRPC's statuscodes.md).
public enum GRPCStatus: UInt8, Sendable {
    case deadlineExceeded = 4
    case permissionDenied = 7
    case resourceExhausted = 8
    case failedPrecondition = 9
    case unimplemented = 12
    case internalError = 13
    case unavailable = 14
    case unauthenticated = 16

    public var name: String {
        switch self {
        case .deadlineExceeded: "DEADLINE_EXCEEDED"
        case .permissionDenied: "PERMISSION_DENIED"
        case .resourceExhausted: "RESOURCE_EXHAUSTED"
        case .failedPrecondition: "FAILED_PRECONDITION"
        case .unimplemented: "UNIMPLEMENTED"
        case .internalError: "INTERNAL"
        case .unavailable: "UNAVAILABLE"
        case .unauthenticated: "UNAUTHENTICATED"
        }
    }
}

extension Denial {
    /// The status for a gRPC client. Nil for a denial without an HTTP answer.
    ///
    /// Where gRPC maps the HTTP status (http-grpc-status-mapping.md), this is the mapped code. Libraries that read the
    /// HTTP status then show the same code. It would map the others to UNKNOWN, and they have a fitting code here.
    public var grpcStatus: GRPCStatus? {
        switch self {
        // 400.
        case .requestMalformed, .headerRefused, .bodyDigestMismatch, .certificateInvalid: .internalError
        // 401.
        case .deviceUnknown, .deviceTokenRequired, .deviceTokenInvalid, .attestationChallengeRequired,
            .attestationStale, .attestationInvalid, .proofRequired, .proofMalformed, .challengeRequired, .proofStale,
            .proofIncomplete, .proofInvalid, .counterReplayed, .counterLate:
            .unauthenticated
        // 401 where a proxy terminates the client's TLS. Otherwise a TLS alert, and no gRPC.
        case .certificateRequired, .certificateUnknownAuthority, .certificateExpired, .certificateUnsuitable,
            .certificateRevoked, .crlStale, .certificateNotPinned, .deviceRevokedInHandshake, .bindingEndedInHandshake:
            .unauthenticated
        // 403.
        case .certificateAbsent, .deviceRevoked, .deviceMismatch, .deviceRisky, .osOutdated, .appRefused, .policyDenied:
            .permissionDenied
        // 404 and 405. gRPC has no method except POST.
        case .routeUnknown, .methodRefused: .unimplemented
        // 408.
        case .requestTimeout: .deadlineExceeded
        // 413, 414 and 431: gRPC's code for a message above the peer's limit.
        case .contentTooLarge, .targetTooLong, .headTooLarge: .resourceExhausted
        // 421 and 426: retry on another connection or in another way.
        case .misdirected, .webSocketVersion: .failedPrecondition
        // 500. The mapping says UNKNOWN, but INTERNAL states the origin of the fault.
        case .internalError: .internalError
        // 429, 502, 503, 504.
        case .rateLimited, .deviceTunnelLimit, .deviceRequestLimit, .storeUnavailable, .policyUnavailable, .overloaded,
            .upstreamUnavailable, .upstreamTimeout, .upstreamBusy, .tunnelLimit:
            .unavailable
        case .peerRefused, .proxyHeaderRefused, .handshakeFailed, .handshakeTimeout, .connectionLimit, .protocolBroken,
            .protocolAbused, .responseNotTaken:
            nil
        }
    }
}
