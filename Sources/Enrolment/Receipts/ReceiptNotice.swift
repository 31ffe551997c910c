internal import EventLoop

/// What came of a device's receipt, for the log. Holds no receipt, token or key.
public struct ReceiptNotice: Equatable, Sendable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// As it should be.
        case info
        /// A failure that recovers by itself, or that concerns one device.
        case warning
        /// An operator has to do something.
        case error
    }

    public let severity: Severity
    /// One line of `name=value`, then what it means.
    public let description: String
}

extension ReceiptNotice {
    /// - Parameters:
    ///   - device: its short id; nil if it could not be computed.
    ///   - risk: of the receipt that is kept now, if this says.
    init(
        _ severity: Severity, _ outcome: String, device: String?, app: String, risk: UInt32? = nil,
        because reason: String? = nil
    ) {
        var text = "outcome=\(outcome)"
        if let device { text += " device=\(device)" }
        text += " app=\(app)"
        if let risk { text += " risk=\(risk)" }
        if let reason { text += ": \(reason)" }
        self.init(severity: severity, description: text)
    }

    /// Nobody is asked about for a while.
    static func paused(_ reason: RefreshSchedule.Pause, seconds: Int64) -> ReceiptNotice {
        switch reason {
        case .tokenRefused:
            ReceiptNotice(
                severity: .error,
                description: "paused=token_refused seconds=\(seconds): Apple refuses the token, so `team`, `key_id` and"
                    + " `key` do not match, the key is not enabled for DeviceCheck, or the clock is wrong")
        case .throttled:
            ReceiptNotice(
                severity: .warning, description: "paused=throttled seconds=\(seconds): Apple receives too many calls")
        case .failing:
            ReceiptNotice(
                severity: .warning, description: "paused=failing seconds=\(seconds): consecutive calls fail")
        }
    }
}

extension ReceiptNotice {
    /// What becomes of the services' names.
    init(_ event: NameBook.Event) {
        switch event {
        case .failing(let server, let fault, _):
            self.init(severity: .warning, description: "\(server) cannot be resolved: \(fault.text)")
        case .recovered(let server): self.init(severity: .info, description: "\(server) is resolved again")
        case .refused(let server, let address, let reason):
            self.init(
                severity: .warning,
                description: "\(server) resolves to \(address.host), which \(reason): it is not used")
        }
    }
}
