internal import HTTP
internal import Registry

/// The reason why an operation was refused, for the body of an answer and for the command line.
///
/// All refusals of this module are defined here.
public struct AdministrationFault: Error, Equatable, Sendable {
    public let status: UInt16
    /// A constant code for programs.
    public let error: String
    /// A sentence for people.
    public let description: String

    public init(_ status: UInt16, _ error: String, _ description: String) {
        self.status = status
        self.error = error
        self.description = description
    }
}

extension AdministrationFault {
    static func badRequest(_ description: String) -> Self { Self(400, "bad_request", description) }
    static let originRefused = Self(403, "origin_refused", "Requests from other web pages are refused.")
    static func notFound(_ description: String) -> Self { Self(404, "not_found", description) }
    static let levelRefused = Self(
        403, "level_refused", "This listener's `level` does not allow that; nothing was changed.")
    static let methodRefused = Self(405, "method_refused", "The endpoint does not allow this method.")
    static let requestTimeout = Self(408, "request_timeout", "The request did not arrive in time.")
    static let contentTooLarge = Self(413, "too_large", "The content is larger than 64 KiB.")
    static let mediaTypeUnsupported = Self(415, "media_type_unsupported", "The content must be application/json.")
    static let tokenRequired = Self(401, "token_required", "The token is missing or wrong for this listener.")
    static let sessionRequired = Self(
        401, "session_required", "The session has ended, or belongs to another listener: sign in.")
    static let misdirected = Self(
        421, "misdirected", "The Host field must be a name of this listener: localhost for a socket.")
    static let storeUnavailable = Self(
        503, "store_unavailable",
        "The store is not available; see `attestgate status`. It is unknown whether the change was made.")
    /// An unavailable store during an operation that changes nothing.
    private static let storeUnreadable = Self(
        503, "store_unavailable", "The store is not available; see `attestgate status`. Nothing can be read.")
    static let accessPointReplaced = Self(
        503, "busy", "The configuration changed during the request, or the gateway is stopping; nothing was changed.")
    static let busy = Self(503, "busy", "The queue of operations is full; nothing was changed.")

    /// Returns a refusal for a device with other keys.
    ///
    /// - Parameter difference: A text such as `with another certificate key`.
    static func registeredOtherwise(device: Int64, _ difference: String) -> Self {
        Self(409, "key_registered", "The hardware key is already registered as device \(device), \(difference).")
    }

    init(_ fault: MessageFault) {
        let reason = String(describing: fault.reason)
        switch fault.kind {
        case .malformed, .fieldRefused: self = .badRequest("The request is refused: \(reason).")
        case .targetTooLong: self.init(414, "too_large", "The request is refused: \(reason).")
        case .headTooLarge: self.init(431, "too_large", "The request is refused: \(reason).")
        }
    }

    init(_ error: StoreError, asking command: RegistryCommand) {
        self = error == .unavailable && !command.changesRegistry ? .storeUnreadable : Self(error)
    }

    init(_ error: StoreError) {
        switch error {
        case .keyRegistered: self.init(409, "key_registered", "A device with this hardware key is already registered.")
        case .keyBound: self.init(409, "key_bound", "The certificate key is or was bound to a device.")
        case .deviceRevoked: self.init(409, "device_revoked", "The device is revoked.")
        case .devicePending: self.init(409, "device_pending", "The device is pending: no certificate key is bound yet.")
        case .deviceUnknown: self = .notFound("There is no such device.")
        case .bindingUnknown: self = .notFound("No device is or was bound to this key.")
        case .unavailable: self = .storeUnavailable
        }
    }
}

extension AdministrationFault: Codable {
    private enum CodingKeys: String, CodingKey {
        case error
        case description = "error_description"
    }

    /// Parses the body of an answer, whose head has the status.
    init(status: UInt16, content: [UInt8]) throws {
        let decoded = try JSONText.decode(AdministrationFault.self, from: content)
        self.init(status, decoded.error, decoded.description)
    }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            0, try members.decode(String.self, forKey: .error), try members.decode(String.self, forKey: .description))
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(error, forKey: .error)
        try members.encode(description, forKey: .description)
    }
}
