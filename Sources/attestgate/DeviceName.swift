internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Lifecycle
internal import Registry
internal import Vocabulary

/// How a command names a device.
struct DeviceName: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            """
            The device's number; the key id of its hardware key or of a bound certificate key (base64, base64url or \
            hexadecimal); or its 16-digit hexadecimal name in logs, which takes longer.
            """, valueName: "DEVICE"),
        transform: DeviceReference.init(argument:))
    var reference: DeviceReference
}

enum DeviceReference {
    case selection(DeviceSelection)
    /// The member `device` of the access log.
    case logged(UInt64)

    init(argument text: String) throws {
        // No device has a number of so many digits.
        if text.utf8.count == 16, let octets = Hexadecimal.decode(text.lowercased()) {
            self = .logged(octets.reduce(0) { $0 << 8 | UInt64($1) })
        } else if let selection = DeviceSelection(text) {
            self = .selection(selection)
        } else {
            throw ValidationError(
                "'\(text)' is not a device number, a key id or a device's name in logs")
        }
    }

    /// What the registry knows the device by.
    func selection(_ access: DeviceAccess) throws -> DeviceSelection {
        switch self {
        case .selection(let selection): selection
        case .logged(let name): try Self.find(name, access)
        }
    }

    /// Looks through all devices: the registry keeps no names of logs, and the registry alone is not enough to make
    /// them.
    private static func find(_ name: UInt64, _ access: DeviceAccess) throws -> DeviceSelection {
        guard let registry = try access.file.read().registry else { throw Failure("there is no section `registry`") }
        let names = try RegistrySecrets.logNames(path: registry.secretPath, LibraryContext())
        let administration = try access.administration()
        var next: Int64? = 0
        while let after = next {
            let operation = DeviceOperation.list(after: DeviceID(after), limit: DeviceOperation.largestPage)
            guard case .page(let page) = try access.perform(operation, administration) else { break }
            for device in page.devices {
                guard let selection = DeviceSelection(device.keyID), case .key(let key) = selection else { continue }
                if try names.name(of: key) == name { return selection }
            }
            next = page.next
        }
        throw Failure("no device has this name in logs; names depend on the secret \(registry.secretPath)")
    }
}
