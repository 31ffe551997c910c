internal import EventLoop
internal import HTTP
internal import Server
internal import TLS
internal import Upstream
internal import Vocabulary

// The errors of the modules below, mapped to the denial table in this one place. The switches are exhaustive: a new
// error does not compile until somebody has decided what it means to a client.

extension Denial {
    init(_ fault: MessageFault) {
        self =
            switch fault.kind {
            case .malformed: .requestMalformed
            case .fieldRefused: .headerRefused
            case .targetTooLong: .targetTooLong
            case .headTooLarge: .headTooLarge
            }
    }

    /// - Returns: nil for a client that merely went away: nothing was refused.
    init?(_ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory: self = .connectionLimit
        case .proxyHeader: self = .proxyHeaderRefused
        case .handshakeTimeout: self = .handshakeTimeout
        case .certificateExpired: self = .certificateExpired
        case .http2(.excess): self = .protocolAbused
        case .http2: self = .protocolBroken
        case .handshake(.disconnected): return nil
        case .handshake(.tls): self = .handshakeFailed
        case .certificateBarred(let objection): self.init(objection.kind)
        case .handshake(.clientCertificate(let fault)): self.init(fault.kind)
        }
    }

    private init(_ kind: ClientCertificateFault.Kind) {
        self =
            switch kind {
            case .missing: .certificateRequired
            case .unknownAuthority: .certificateUnknownAuthority
            case .outsideValidity: .certificateExpired
            case .unsuitable: .certificateUnsuitable
            case .revoked: .certificateRevoked
            case .listStale: .crlStale
            case .notPinned: .certificateNotPinned
            case .deviceRevoked: .deviceRevokedInHandshake
            case .bindingEnded: .bindingEndedInHandshake
            }
    }

    init(_ failure: UpstreamFailure) {
        self =
            switch failure {
            case .connectTimeout, .responseTimeout: .upstreamTimeout
            case .exhausted: .overloaded
            case .connectionLimit, .waitingTimeout, .requestLimit: .upstreamBusy
            case .unresolved, .unreachable, .tls, .disconnected, .malformed, .unexpectedUpgrade, .upgradeInvalid,
                .notHTTP2, .answeredInHTTP2, .refused, .reset, .http2:
                .upstreamUnavailable
            }
    }
}

/// What the log says beyond the denial's code.
enum RefusalDetail {
    /// - Parameter client: whose connection it was, if its handshake was complete.
    static func of(_ refusal: ConnectionRefusal, _ client: ClientIdentity?) -> String? {
        switch refusal {
        case .handshakeTimeout, .certificateExpired: nil
        case .proxyHeader(let fault): fault.reason
        case .http2(let fault): String(describing: fault.reason)
        case .limit: "connections of the worker"
        case .listenerLimit: "connections of the listener"
        case .sourceLimit: "connections or handshakes of one address"
        case .clientLimit: "connections of one client"
        case .memory: "memory of the process"
        case .handshakeLimit: "handshakes of the worker"
        case .certificateBarred(let objection):
            (client?.keyID.map { "key id \($0): " } ?? "") + "while the connection was open: \(objection.reason)"
        case .handshake(.disconnected): "the client ended the connection"
        case .handshake(.tls(let reason)): reason
        case .handshake(.clientCertificate(let fault)):
            fault.certificate.map { "\(text(of: $0)): \(fault.reason)" }
        }
    }

    private static func text(of certificate: PresentedCertificate) -> String {
        let names = "subject \(certificate.subject), issuer \(certificate.issuer), serial \(certificate.serial)"
        return names + (certificate.keyID.map { ", key id \($0)" } ?? "")
    }
}
