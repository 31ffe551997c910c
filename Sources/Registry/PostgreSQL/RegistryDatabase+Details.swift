internal import Vocabulary

// All that is known of a device, by statements that can be asked together with others.
extension RegistryDatabase {
    /// In a transaction, which makes the answers one.
    static func details(of device: DeviceSelector) -> [DatabaseStatement] {
        // Its number, or what stands for that.
        let (number, argument): (String, DatabaseValue) =
            switch device {
            case .id(let id): ("$1", .device(id))
            case .hardwareKey(let key): ("(SELECT id FROM device WHERE hardware_key = $1)", .key(key))
            case .binding(let key): ("(SELECT device FROM binding WHERE key = $1)", .key(key))
            }
        return [
            "SELECT \(DeviceIdentity.databaseColumns) FROM \(DeviceIdentity.databaseTables) WHERE device.id =",
            "SELECT \(Binding.databaseColumns) FROM binding WHERE device =",
            """
            SELECT \(AttestationRecord.databaseColumns) FROM \(AttestationRecord.databaseTables)
            WHERE attestation.device =
            """,
            "SELECT \(ReceiptRefresh.databaseColumns) FROM receipt WHERE device =",
        ].enumerated().map { index, question in
            let order = index == 1 ? " ORDER BY created_at, key" : ""
            return DatabaseStatement("\(question) \(number)\(order)", [argument])
        }
    }

    static let detailsCount = 4

    /// - Parameter answers: of `details(of:)`.
    /// - Returns: nil if there is no such device.
    static func details(_ answers: ArraySlice<DatabaseResult>) throws -> DeviceDetails? {
        let answers = [DatabaseResult](answers)
        let (row, bindings, attestation, refresh) = (answers[0], answers[1], answers[2], answers[3])
        guard row.rows == 1 else { return nil }
        return DeviceDetails(
            device: try Device(row, 0), bindings: try (0..<bindings.rows).map { try Binding(bindings, $0) },
            attestation: attestation.rows == 0 ? nil : try AttestationRecord(attestation, 0),
            refresh: refresh.rows == 0 ? nil : try ReceiptRefresh(refresh, 0))
    }
}
