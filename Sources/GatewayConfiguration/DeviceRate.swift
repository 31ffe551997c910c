/// Devices are known by the registry alone: whoever limits their rate without one believes in a limit that is not there.
enum DeviceRate {
    static func check(_ root: Item, _ reading: Reading) {
        let key = LimitsConfiguration.Keys.ratePerDevice.setting.name
        guard let limits = root["limits"], limits[key] != nil else { return }
        let lacking = AppReferences.lacking(in: root)
        guard !lacking.isEmpty else { return }
        reading.refuse(
            limits.place(of: key), "`\(key)` needs the sections `registry` and `apps`: only they know devices",
            expected: "\(lacking.joined(separator: " and ")), or no `\(key)`")
    }
}
