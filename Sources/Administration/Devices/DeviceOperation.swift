internal import Encoding
internal import Foundation
public import Registry
public import Vocabulary

/// An operation on devices, through the socket of a running gateway or on the registry's file.
public enum DeviceOperation: Equatable, Sendable {
    case add(DeviceRegistration)
    /// Lists a page of devices.
    ///
    /// - after: The last device of the previous page.
    /// - limit: 1 to `largestPage`.
    case list(after: DeviceID?, limit: Int)
    /// Lists a page of pending devices.
    case listPending(after: DeviceID?, limit: Int)
    /// Lists a page of devices that meet conditions. It may be shorter than the limit although others follow.
    case search(DeviceSearch, after: DeviceID?, limit: Int)
    case show(DeviceSelection)
    /// Permits a pending device to bind its first key.
    case approve(DeviceSelection)
    case revoke(DeviceSelection)
    case restore(DeviceSelection)

    /// Limit of devices in a page. The store's thread reads them between two commits.
    public static let largestPage = 500
    public static let usualPage = 100

    /// The name of the change for the log. Nil if there is none.
    var change: String? {
        switch self {
        case .add: "add"
        case .approve: "approve"
        case .revoke: "revoke"
        case .restore: "restore"
        case .list, .listPending, .search, .show: nil
        }
    }

    /// The number of the device for the log, if the operator used it. Key ids are not logged.
    var number: String? {
        switch self {
        case .approve(.number(let id)), .revoke(.number(let id)), .restore(.number(let id)): id.description
        default: nil
        }
    }
}

/// The result of an operation.
public enum DeviceAnswer: Equatable, Sendable {
    /// The device in its new state.
    case device(DeviceDocument)
    case page(DevicePage)
}

extension DeviceAnswer: Encodable {
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .device(let document): try document.encode(to: encoder)
        case .page(let page): try page.encode(to: encoder)
        }
    }
}

extension DeviceOperation {
    typealias Completion<Success> = (Result<Success, AdministrationFault>) -> Void

    /// Runs the operation.
    ///
    /// - Parameters:
    ///   - perform: Sends a command to the owner of the store.
    ///   - completion: Called once.
    func run(
        _ perform: @escaping (RegistryCommand, @escaping Completion<RegistryReply>) -> Void,
        completion: @escaping Completion<DeviceAnswer>
    ) {
        switch self {
        case .add(let registration): perform(registration.command) { completion($0.flatMap(Self.device)) }
        case .list(let after, let limit):
            // One more shows whether another page follows.
            perform(.list(after: after, limit: limit + 1)) { result in
                completion(result.flatMap { Self.page($0, limit: limit) })
            }
        case .listPending(let after, let limit):
            perform(.listPending(after: after, limit: limit + 1)) { result in
                completion(result.flatMap { Self.page($0, limit: limit) })
            }
        case .search(let search, let after, let limit):
            perform(.search(search, after: after, limit: limit)) { result in
                completion(
                    result.flatMap { reply in
                        guard case .found(let found) = reply else { return .failure(.storeUnavailable) }
                        return .success(
                            .page(
                                DevicePage(
                                    devices: found.devices.map { DeviceDocument($0) }, next: found.next?.number)))
                    })
            }
        case .approve(let selection): Self.change(selection, RegistryCommand.approve, perform, completion)
        case .show(let selection):
            Self.find(selection, perform) { result in
                guard case .success(let details) = result else {
                    return completion(result.map { .device(DeviceDocument($0)) })
                }
                perform(.listTokens(details.device.id)) { reply in
                    completion(
                        reply.flatMap { reply in
                            guard case .tokens(let tokens) = reply else { return .failure(.storeUnavailable) }
                            return .success(.device(DeviceDocument(details, tokens: tokens)))
                        })
                }
            }
        case .revoke(let selection): Self.change(selection, RegistryCommand.revoke, perform, completion)
        case .restore(let selection): Self.change(selection, RegistryCommand.restore, perform, completion)
        }
    }

    private static func change(
        _ selection: DeviceSelection, _ command: @escaping (DeviceID) -> RegistryCommand,
        _ perform: @escaping (RegistryCommand, @escaping Completion<RegistryReply>) -> Void,
        _ completion: @escaping Completion<DeviceAnswer>
    ) {
        find(selection, perform) { result in
            switch result {
            // A number never refers to another device, so nothing can change in between.
            case .success(let details): perform(command(details.device.id)) { completion($0.flatMap(device)) }
            case .failure(let fault): completion(.failure(fault))
            }
        }
    }

    private static func find(
        _ selection: DeviceSelection,
        _ perform: @escaping (RegistryCommand, @escaping Completion<RegistryReply>) -> Void,
        _ completion: @escaping Completion<DeviceDetails>
    ) {
        let finish: Completion<RegistryReply> = { completion($0.flatMap(details)) }
        switch selection {
        case .number(let id): perform(.show(.id(id)), finish)
        case .key(let key):
            perform(.show(.hardwareKey(key))) { result in
                if case .failure(let fault) = result, fault == AdministrationFault(.deviceUnknown) {
                    perform(.show(.binding(key))) { second in
                        // The key is of neither kind, and the first answer has the better text.
                        if case .failure(let other) = second, other.status == fault.status { return finish(result) }
                        finish(second)
                    }
                } else {
                    finish(result)
                }
            }
        }
    }

    private static func details(_ reply: RegistryReply) -> Result<DeviceDetails, AdministrationFault> {
        guard case .device(let details) = reply else { return .failure(.storeUnavailable) }
        return .success(details)
    }

    private static func device(_ reply: RegistryReply) -> Result<DeviceAnswer, AdministrationFault> {
        details(reply).map { .device(DeviceDocument($0)) }
    }

    private static func page(_ reply: RegistryReply, limit: Int) -> Result<DeviceAnswer, AdministrationFault> {
        guard case .devices(let devices) = reply else { return .failure(.storeUnavailable) }
        return .success(.page(DevicePage(devices, limit: limit)))
    }
}

/// An operator's reference to a device.
public enum DeviceSelection: Equatable, Sendable {
    case number(DeviceID)
    /// The key id of its hardware key, or of a certificate key that is or was bound to it.
    case key(KeyID)

    /// Parses a reference.
    ///
    /// - Parameter text: A device number, or a key id in base64, base64url without padding, or hexadecimal.
    public init?(_ text: String) {
        if let number = Int64(text), String(number) == text {
            guard let id = DeviceID(number) else { return nil }
            self = .number(id)
        } else if let key = Self.key(text) {
            self = .key(key)
        } else {
            return nil
        }
    }

    private static func key(_ text: String) -> KeyID? {
        // KeyID uses lower case, but a copied fingerprint may not.
        let lowercase = text.lowercased()
        if lowercase.utf8.count == 64 {
            guard let octets = Hexadecimal.decode(lowercase) else { return nil }
            return KeyID(digest: octets.span)
        }
        let base64 = text.replacing("-", with: "+").replacing("_", with: "/") + (text.utf8.count == 43 ? "=" : "")
        return Base64.decode(base64).flatMap { KeyID(digest: $0.span) }
    }

    /// The form for a path, in which base64 would add slashes.
    var segment: String {
        switch self {
        case .number(let id): id.description
        case .key(let key):
            Base64URL.encode(key.bytes)
        }
    }
}

extension KeyID {
    var base64: String { Base64.encode(bytes) }
}
