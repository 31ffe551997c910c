public import Vocabulary

/// A device that was seen.
package struct SeenDevice: Equatable, Sendable {
    package let id: DeviceID
    /// What an assertion shows of its app. Nil unless that is news.
    package let app: ShownApp?

    package init(_ id: DeviceID, app: ShownApp? = nil) {
        self.id = id
        self.app = app
    }
}

/// Devices that were seen on a day, in the order in which they were noted.
public struct SeenDevices: Sendable {
    package let devices: [SeenDevice]
    /// The day, in days since 1970-01-01 UTC.
    package let day: Int64

    /// The maximum number of devices.
    package static let limit = 1_024

    package init(_ devices: [SeenDevice], day: Int64) {
        self.devices = devices
        self.day = day
    }
}

/// A search for devices that meet all of its conditions. Nil admits any.
public struct DeviceSearch: Equatable, Sendable {
    public var app: AppID?
    public var platform: Platform?
    public var state: DeviceState?
    /// The pseudonym of the person that a device was admitted for.
    public var subject: Fingerprint?
    /// Devices that were last seen before this day, or never. In days since 1970-01-01 UTC.
    public var seenBefore: Int64?
    /// Devices that were last seen on this day or later.
    public var seenSince: Int64?

    public init() {}

    /// The number of devices that are examined for a page, so that a search does not delay counters.
    package static let examined = 1_000

    /// Returns whether the device meets the conditions.
    package func admits(_ device: Device) -> Bool {
        func isMet<Value: Equatable>(_ wanted: Value?, _ value: Value?) -> Bool { wanted == nil || wanted == value }
        let isEarly = seenBefore.map { limit in device.lastSeen.map { $0 < limit } ?? true } ?? true
        let isLate = seenSince.map { limit in device.lastSeen.map { $0 >= limit } ?? false } ?? true
        return isMet(app, device.identity.app) && isMet(platform, device.identity.platform)
            && isMet(state, device.state) && isMet(subject, device.subject) && isEarly && isLate
    }
}

/// A page of devices that a search has found, in the order of their numbers.
public struct FoundDevices: Equatable, Sendable {
    public let devices: [Device]
    /// The device after which the search continues. Nil at its end.
    public let next: DeviceID?

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of devices.
    ///   - examined: The number of examined devices.
    ///   - last: The last of these.
    package init(_ devices: [Device], limit: Int, examined: Int, last: DeviceID?) {
        self.devices = devices
        if limit > 0, devices.count >= limit {
            next = devices.last?.id
        } else {
            next = examined >= DeviceSearch.examined ? last : nil
        }
    }
}
