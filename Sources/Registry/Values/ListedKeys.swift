/// A search for devices whose keys rest on listed certificates: on revoked ones, as far as the search knows.
public struct ListedKeySearch: Sendable {
    /// The serial numbers of listed certificates, in lower-case hexadecimal without leading zeros. At most
    /// `serialLimit` are looked up.
    public let serials: [String]
    /// The device after which the search continues. Nil for its beginning.
    public let after: DeviceID?
    /// The maximum number of devices.
    public let limit: Int

    public static let serialLimit = 64

    public init(serials: some Sequence<String>, after: DeviceID?, limit: Int) {
        self.serials = Array(serials.prefix(Self.serialLimit))
        self.after = after
        self.limit = max(1, limit)
    }
}

/// A review of devices that were marked by a `ListedKeySearch`.
public struct ListedKeyReview: Sendable {
    /// The serial numbers of all listed certificates.
    public let listed: Set<String>
    /// The device after which the review continues. Nil for its beginning.
    public let after: DeviceID?
    /// The maximum number of devices.
    public let limit: Int

    public init(listed: Set<String>, after: DeviceID?, limit: Int) {
        self.listed = listed
        self.after = after
        self.limit = max(1, limit)
    }
}

/// A page of devices with listed keys.
public struct ListedKeyPage: Equatable, Sendable {
    /// The devices that were changed: newly marked, or released.
    public let changed: [DeviceDetails]
    /// The number of devices that stay marked, of a review.
    public let kept: Int
    /// The device after which the next page begins. Nil if there is no more.
    public let next: DeviceID?

    package init(changed: [DeviceDetails], kept: Int = 0, next: DeviceID?) {
        self.changed = changed
        self.kept = kept
        self.next = next
    }
}
