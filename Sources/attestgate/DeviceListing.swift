internal import Administration

/// Devices as text for people.
enum DeviceListing {
    private static let titles = [
        "DEVICE", "STATE", "APP", "PLATFORM", "ENVIRONMENT", "COUNTER", "REGISTERED", "KEY ID",
    ]

    /// - Parameter next: the device after which more follow; nil if these were the last.
    static func text(of devices: [DeviceDocument], next: Int64?) -> String {
        let rows = devices.map { device in
            [
                String(device.device), device.state, device.appID, device.platform, device.environment,
                String(device.counter), device.registeredAt, device.keyID,
            ]
        }
        let more = next.map { ["", "there are more: --after \($0)"] } ?? []
        return (Columns.aligned([titles] + rows) + more).joined(separator: "\n")
    }

    static func text(of device: DeviceDocument) -> String {
        var rows = [
            ["device", String(device.device)],
            ["state", device.state + (device.revokedAt.map { " since \($0)" } ?? "")],
        ]
        if let approved = device.approvedAt { rows.append(["approved", approved]) }
        rows += [
            ["key id", device.keyID],
            ["app", device.appID],
            ["platform", device.platform],
            ["environment", device.environment],
            ["registered", device.registeredAt],
            ["counter", String(device.counter)],
        ]
        if let shown = device.shownExtensions, !shown.isEmpty { rows.append(["shows", shown.joined(separator: ", ")]) }
        if let version = device.systemVersion { rows.append(["system version", version]) }
        if let subject = device.subject { rows.append(["subject", subject]) }
        if let receipt = device.receipt {
            rows.append(["risk metric", receipt.riskMetric.map { "\($0)" } ?? "unknown"])
            let made = receipt.createdAt.map { "made \($0)" }
            let outcome = receipt.outcome.map { outcome in "\(outcome)\(receipt.askedAt.map { " \($0)" } ?? "")" }
            let next = receipt.nextAt.map { "next \($0)" } ?? "no longer requested"
            rows.append(["receipt", [made, outcome, next].compactMap(\.self).joined(separator: ", ")])
        }
        for binding in device.bindings ?? [] {
            let ended = binding.endedAt.map { ", ended \($0)" } ?? binding.endsAt.map { ", ends \($0)" } ?? ""
            rows.append(["certificate key", "\(binding.keyID) since \(binding.createdAt)\(ended)"])
        }
        return Columns.aligned(rows).joined(separator: "\n")
    }
}
