internal import Registry

/// How much content one worker may hold for requests whose content is not complete or not forwarded yet. A limit for each
/// request is not enough: there may be thousands. And no device gets more than a share, or one would lock out all others.
final class ContentBudget {
    private var left: Int
    private let share: Int
    /// What devices hold that hold any.
    private var held: [DeviceID: Int] = [:]

    /// - Parameters:
    ///   - limit: in bytes.
    ///   - share: what one device may hold, in bytes: at least the largest content of a request.
    init(limit: Int, share: Int) {
        left = limit
        self.share = share
    }

    /// Devices that hold any.
    var holders: Int { held.count }

    func take(_ count: Int, for device: DeviceID) -> Bool {
        let before = held[device] ?? 0
        guard count <= left, before + count <= share else { return false }
        left -= count
        if before + count > 0 { held[device] = before + count }
        return true
    }

    func give(_ count: Int, of device: DeviceID) {
        guard count > 0, let before = held[device] else { return }
        left += count
        held[device] = before > count ? before - count : nil
    }
}
