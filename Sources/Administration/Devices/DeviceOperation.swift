internal import Foundation
public import Registry
public import Vocabulary

/// What an operator does with devices: the same through the socket of a running gateway and on the registry's file.
public enum DeviceOperation: Equatable, Sendable {
    case add(DeviceRegistration)
    /// - after: the last device of the page before; limit: 1 to `largestPage`.
    case list(after: DeviceID?, limit: Int)
    /// The same for pending devices alone.
    case listPending(after: DeviceID?, limit: Int)
    case show(DeviceSelection)
    /// Lets a pending device bind its first key.
    case approve(DeviceSelection)
    case revoke(DeviceSelection)
    case restore(DeviceSelection)

    /// Devices in a page. The store's thread reads them between two commits.
    public static let largestPage = 500
    public static let usualPage = 100
}

/// What came of it.
public enum DeviceAnswer: Equatable, Sendable {
    /// The device concerned, as it is now.
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

    /// - Parameters:
    ///   - perform: sends a command to the owner of the store.
    ///   - completion: called once.
    func run(
        _ perform: @escaping (RegistryCommand, @escaping Completion<RegistryReply>) -> Void,
        completion: @escaping Completion<DeviceAnswer>
    ) {
        switch self {
        case .add(let registration): perform(registration.command) { completion($0.flatMap(Self.device)) }
        case .list(let after, let limit):
            // One more, to know whether there are more.
            perform(.list(after: after, limit: limit + 1)) { result in
                completion(result.flatMap { Self.page($0, limit: limit) })
            }
        case .listPending(let after, let limit):
            perform(.listPending(after: after, limit: limit + 1)) { result in
                completion(result.flatMap { Self.page($0, limit: limit) })
            }
        case .approve(let selection): Self.change(selection, RegistryCommand.approve, perform, completion)
        case .show(let selection): Self.find(selection, perform) { completion($0.map { .device(DeviceDocument($0)) }) }
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
            // A number never comes to mean another device, so nothing can change in between.
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
                        // Neither kind of key: the first answer says so in the better words.
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

/// A device as an operator names it.
public enum DeviceSelection: Equatable, Sendable {
    case number(DeviceID)
    /// The key id of its hardware key, or of a certificate key that is or was bound to it.
    case key(KeyID)

    /// - Parameter text: a device number, or a key id in base64, base64url without padding, or hexadecimal.
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
        // KeyID is written in lower case; a fingerprint copied from elsewhere may not be.
        let lowercase = text.lowercased()
        if lowercase.utf8.count == 64 {
            guard let octets = Hexadecimal.decode(lowercase) else { return nil }
            return KeyID(digest: octets.span)
        }
        let base64 = text.replacing("-", with: "+").replacing("_", with: "/") + (text.utf8.count == 43 ? "=" : "")
        guard let data = Data(base64Encoded: base64), data.base64EncodedString() == base64 else { return nil }
        let octets = Array(data)
        return KeyID(digest: octets.span)
    }

    /// As it stands in a path, where base64 itself would bring in slashes.
    var segment: String {
        switch self {
        case .number(let id): id.description
        case .key(let key):
            key.base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        }
    }
}

extension KeyID {
    var base64: String { Data(bytes).base64EncodedString() }
}
