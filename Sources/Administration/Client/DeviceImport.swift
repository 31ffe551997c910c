internal import Registry

/// What an import has done so far.
public struct DeviceImportTally: Equatable, Sendable, Encodable {
    public internal(set) var registered = 0
    /// Registered before, with the same keys.
    public internal(set) var skipped = 0

    /// Devices dealt with: the index of the next one.
    public var done: Int { registered + skipped }
}

/// Why an import came to nothing, or ended early. What was registered stays; the import may be run again.
public struct DeviceImportError: Error, Equatable, Sendable {
    public let reason: DeviceAdministrationError
    /// The device concerned, counted from 0; nil if it was none.
    public let index: Int?
    public let tally: DeviceImportTally
}

/// Registers many devices, in their order, up to the first that is refused.
struct DeviceImport {
    private let registrations: [DeviceRegistration]
    private let progress: (DeviceImportTally) -> Void
    private(set) var tally = DeviceImportTally()

    /// Devices in one transaction on the file: then a sync costs each of them little.
    private static let slice = 500
    /// Pages of 4 KiB in the write-ahead log beyond which it is moved into the file.
    private static let logBound = 8_192

    init(_ registrations: [DeviceRegistration], progress: @escaping (DeviceImportTally) -> Void) {
        self.registrations = registrations
        self.progress = progress
    }

    /// Through a running gateway. It commits each device by itself, between the counters of its traffic.
    mutating func run(through client: AdministrationClient) throws(DeviceImportError) {
        while tally.done < registrations.count {
            do throws(DeviceAdministrationError) {
                _ = try client.administer(.add(registrations[tally.done]))
                tally.registered += 1
            } catch {
                try skip(error) { operation throws(DeviceAdministrationError) in try client.administer(operation) }
            }
            progress(tally)
        }
    }

    /// On the file, while nobody else has it.
    mutating func run(on store: RegistryStore) throws(DeviceImportError) {
        while tally.done < registrations.count {
            let slice = registrations[tally.done...].prefix(Self.slice)
                .map { ($0.identity, Optional($0.certificateKey.id)) }
            let refusal: StoreError?
            do throws(StoreError) {
                let outcome = try store.register(slice)
                tally.registered += outcome.registered
                refusal = outcome.refusal
                if store.logPages > Self.logBound { try store.checkpoint() }
            } catch {
                // The whole slice was undone, or it is unknown whether it was: no device in particular.
                throw DeviceImportError(reason: .unavailable(store), index: nil, tally: tally)
            }
            if let refusal {
                try skip(.refused(AdministrationFault(refusal))) { operation throws(DeviceAdministrationError) in
                    try operation.performed(on: store)
                }
            }
            progress(tally)
        }
    }

    /// Continues after a refused device if that device is already registered with the same values.
    ///
    /// - Throws: for a device that is registered otherwise.
    private mutating func skip(
        _ error: DeviceAdministrationError,
        _ perform: (DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer
    ) throws(DeviceImportError) {
        let registration = registrations[tally.done]
        var reason = error
        if error == .refused(AdministrationFault(.keyRegistered)) {
            do throws(DeviceAdministrationError) {
                guard case .device(let known) = try perform(.show(.key(registration.publicKey.id))) else { throw error }
                guard let difference = known.difference(from: registration) else {
                    tally.skipped += 1
                    return
                }
                reason = .refused(.registeredOtherwise(device: known.device, difference))
            } catch {
                reason = error
            }
        }
        throw DeviceImportError(reason: reason, index: tally.done, tally: tally)
    }
}

extension DeviceDocument {
    /// What is not as it would have been registered; nil if all of it is. Whether it was revoked since is not asked.
    fileprivate func difference(from registration: DeviceRegistration) -> String? {
        // Its key id is the one it was found by.
        if appID != registration.app.description { return "for the app '\(appID)'" }
        if platform != registration.platform.rawValue { return "for the platform '\(platform)'" }
        if environment != registration.environment.rawValue { return "for the environment '\(environment)'" }
        let isBound = bindings?.contains {
            $0.keyID == registration.certificateKey.id.base64 && $0.endedAt == nil
        }
        return isBound == true ? nil : "with another certificate key"
    }
}
