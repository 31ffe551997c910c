internal import Registry
internal import RegistrySQLite

/// The progress of an import.
public struct DeviceImportTally: Equatable, Sendable, Encodable {
    public internal(set) var registered = 0
    /// The number of devices that were registered before with the same keys.
    public internal(set) var skipped = 0

    /// The number of processed devices, which is the index of the next one.
    public var done: Int { registered + skipped }
}

/// The reason why an import failed or ended early. Registered devices stay, and the import may be repeated.
public struct DeviceImportError: Error, Equatable, Sendable {
    public let reason: DeviceAdministrationError
    /// The index of the device, counted from 0. Nil if the failure concerns none.
    public let index: Int?
    public let tally: DeviceImportTally
}

/// Registration of many devices in order, up to the first that is refused.
struct DeviceImport {
    private let registrations: [DeviceRegistration]
    private let progress: (DeviceImportTally) -> Void
    private(set) var tally = DeviceImportTally()

    /// Devices per transaction on the file, so that they share the cost of a sync.
    private static let slice = 500
    /// Size of the write-ahead log in pages of 4 KiB above which it is moved into the file.
    private static let logBound = 8_192

    init(_ registrations: [DeviceRegistration], progress: @escaping (DeviceImportTally) -> Void) {
        self.registrations = registrations
        self.progress = progress
    }

    /// Registers through a running gateway. It commits each device separately, between the counters of its traffic.
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

    /// Registers on the file, without other users.
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
                // The whole slice was undone, or its outcome is unknown, so the failure concerns no single device.
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

    /// Skips a refused device if it is already registered with the same values.
    ///
    /// - Throws: for a device that is registered with other values.
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
