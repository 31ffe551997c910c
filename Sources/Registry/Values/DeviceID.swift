/// A device in one store: the number of its row. Never used again for another device.
public struct DeviceID: Hashable, Comparable, Sendable {
    public let number: Int64

    /// - Parameter number: at least 1; nothing else is a device.
    public init?(_ number: Int64) {
        guard number >= 1 else { return nil }
        self.number = number
    }

    public static func < (left: DeviceID, right: DeviceID) -> Bool { left.number < right.number }
}

extension DeviceID: CustomStringConvertible {
    public var description: String { String(number) }
}
