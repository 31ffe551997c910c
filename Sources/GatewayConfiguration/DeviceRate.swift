/// Only the registry identifies devices: without one, a rate limit for devices would have no effect.
enum DeviceRate {
    static func check(_ root: Item, _ reading: Reading) {
        let key = LimitsConfiguration.Keys.ratePerDevice.setting.name
        guard let limits = root["limits"], limits[key] != nil else { return }
        let lacking = AppReferences.lacking(in: root)
        guard !lacking.isEmpty else { return }
        reading.refuse(
            limits.place(of: key), "`\(key)` needs the sections `registry` and `apps`, which know the devices",
            expected: "\(lacking.joined(separator: " and ")), or no `\(key)`")
    }
}
