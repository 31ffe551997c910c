internal import Attestation
internal import EventLoop
internal import HTTP
internal import Registry
internal import RequestProof
internal import Server
package import TLS
internal import Upstream
package import Vocabulary

// The errors of other modules, mapped to the denial table in this one file. The switches are exhaustive: a new error
// does not compile until its meaning for clients is decided.

extension Denial {
    /// Whether a route that observes forwards the request all the same. Without a device, nobody vouches for a
    /// self-signed certificate.
    func isObservable(isSelfSigned: Bool) -> Bool { isObservable && !(self == .deviceUnknown && isSelfSigned) }

    init(_ fault: MessageFault) {
        self =
            switch fault.kind {
            case .malformed: .requestMalformed
            case .fieldRefused: .headerRefused
            case .targetTooLong: .targetTooLong
            case .headTooLarge: .headTooLarge
            }
    }

    /// Returns nil for a client that merely left: nothing was refused.
    init?(_ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory: self = .connectionLimit
        case .peer: self = .peerRefused
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

    package init(_ kind: ClientCertificateFault.Kind) {
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
            case .unreachable where failure.isBacklogFull: .upstreamBusy
            case .connectionLimit, .waitingTimeout, .requestLimit: .upstreamBusy
            case .unresolved, .unreachable, .tls, .disconnected, .malformed, .unexpectedUpgrade, .upgradeInvalid,
                .notHTTP2, .answeredInHTTP2, .refused, .reset, .http2:
                .upstreamUnavailable
            }
    }
}

/// What the log contains besides the denial's code.
enum RefusalDetail {
    /// Returns the detail.
    ///
    /// - Parameter client: The client's identity, if its handshake was complete.
    static func of(_ refusal: ConnectionRefusal, _ client: ClientIdentity?) -> String? {
        switch refusal {
        case .handshakeTimeout, .certificateExpired, .peer: nil
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

/// A denial with the details beyond the table.
package struct Refusal: Error, Equatable {
    /// Apart: values that may have a refusal, and rarely do, are then no larger than a reference.
    private let contents: Contents

    private final class Contents: Sendable {
        let denial: Denial
        let detail: String?
        let component: String?
        let excess: RateExcess?
        let objection: PolicyObjection?

        init(
            _ denial: Denial, _ detail: String?, _ component: String? = nil, _ excess: RateExcess? = nil,
            _ objection: PolicyObjection? = nil
        ) {
            self.denial = denial
            self.detail = detail
            self.component = component
            self.excess = excess
            self.objection = objection
        }
    }

    package var denial: Denial { contents.denial }
    /// Text for the log: never bytes of a proof.
    package var detail: String? { contents.detail }
    /// The component that the proof does not cover, for the client: a token in lower case.
    package var component: String? { contents.component }
    /// The exceeded rate, for the client.
    var excess: RateExcess? { contents.excess }
    /// What a policy finds, for the client.
    var objection: PolicyObjection? { contents.objection }

    package init(_ denial: Denial, _ detail: String? = nil, component: String? = nil) {
        contents = Contents(denial, detail, component)
    }

    init(_ denial: Denial, _ detail: String, objection: PolicyObjection) {
        contents = Contents(denial, detail, nil, nil, objection)
    }

    /// Creates the refusal of a malformed request.
    ///
    /// - Parameter target: The byte of the target for which it is refused, if it is.
    init(_ fault: MessageFault, _ target: TargetFault? = nil) {
        self.init(Denial(fault), target.map { "\(fault.reason): \($0)" } ?? String(describing: fault.reason))
    }

    init(_ excess: RateExcess) {
        contents = Contents(.rateLimited, excess.scope.rawValue, nil, excess)
    }

    package static func == (left: Refusal, right: Refusal) -> Bool {
        left.contents === right.contents
            || (left.denial, left.detail, left.component) == (right.denial, right.detail, right.component)
                && left.excess == right.excess && left.objection == right.objection
    }
}

// The errors of the proof, and the registry's verdicts.

extension Refusal {
    /// Maps an error of the proof.
    ///
    /// - Parameter input: The signature input, if it could be parsed: it has the names of components.
    init(_ fault: ProofFault, _ input: SignatureInput?) {
        switch fault {
        case .missing: self.init(.proofRequired, fault.description)
        case .malformed: self.init(.proofMalformed, fault.description)
        case .incomplete(let component):
            self.init(.proofIncomplete, fault.description, component: component.description)
        case .fieldAbsent(let place):
            self.init(
                .proofIncomplete, fault.description, component: input?.componentNames[place].description)
        }
    }

    init(_ fault: AssertionFault) {
        let reason = String(describing: fault.reason)
        switch fault {
        case .checkFailed(let error): self.init(.internalError, error.description)
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData:
            self.init(.proofMalformed, reason)
        case .rpIDMismatch, .counterZero, .signatureInvalid: self.init(.proofInvalid, reason)
        }
    }

    /// Maps an error of the extensions.
    ///
    /// - Parameter category: The category in the assertion, if any. The version is not repeated, because it is free
    ///   text.
    init(_ fault: ExtensionFault, _ category: ValidationCategory?) {
        switch (fault, category) {
        case (.validationCategory(.notAdmitted), let category?):
            self.init(.appRefused, "\(fault.reason): \(category.rawValue)")
        case (.validationCategory, _), (.bundleVersion, _): self.init(.appRefused, fault.reason)
        }
    }

    /// A concurrent request of the device has shown more extensions than this one.
    private static var extensionWithheld: Refusal {
        Refusal(.appRefused, "an extension is absent that the same key has shown before")
    }

    /// Maps the acceptance of a counter in memory.
    ///
    /// - Parameter counter: The counter of the proof.
    init?(_ acceptance: CounterAcceptance, of counter: UInt32) {
        switch acceptance {
        case .pending: return nil
        case .replayed: self.init(.counterReplayed)
        case .late(let highest): self = .late(counter, highest)
        case .deviceRevoked: self.init(Denial.deviceRevoked)
        case .extensionWithheld: self = .extensionWithheld
        case .storeUnavailable: self.init(.storeUnavailable, "the registry accepts no counters")
        }
    }

    /// The window that would have sufficed. For the log only, because it shows how often a device is used.
    private static func late(_ counter: UInt32, _ highest: UInt32) -> Refusal {
        Refusal(.counterLate, "\(Int64(highest) - Int64(counter)) behind the highest, \(highest)")
    }

    /// Maps the outcome of a commit.
    ///
    /// - Parameter counter: The counter of the proof.
    /// - Returns: Nil if the counter is committed.
    init?(_ outcome: CounterOutcome, of counter: UInt32) {
        switch outcome {
        case .committed: return nil
        case .replayed: self.init(.counterReplayed)
        // Another gateway has raised the highest counter, or it was not in memory.
        case .late(let highest): self = .late(counter, highest)
        case .deviceRevoked: self.init(Denial.deviceRevoked)
        case .bindingEnded: self.init(.deviceMismatch, "the binding of the certificate's key has ended")
        case .extensionWithheld: self = .extensionWithheld
        case .unknown: self.init(.deviceUnknown)
        case .epochChanged: self.init(.challengeRequired, "the store's epoch has changed")
        case .storeUnavailable: self.init(.storeUnavailable, "the counter could not be committed; it stays spent")
        }
    }
}
