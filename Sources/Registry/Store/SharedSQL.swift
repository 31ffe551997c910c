package import Vocabulary

/// SQL that SQLite and PostgreSQL understand alike.
package enum SharedSQL {
    /// The columns that `DeviceIdentity` and `Device` are read from, in order.
    package static let deviceColumns = """
        device.id, hardware_key, app, platform, environment, point, registered_at, revoked_at, highest, activated_at, \
        approved_at, subject, shown_extensions
        """
    package static let deviceTables = "device JOIN counter ON counter.device = device.id"

    /// The columns that `Binding` is read from, in order.
    package static let bindingColumns = "key, device, created_at, ended_at, ends_at"

    /// The columns that `AttestationRecord` is read from, in order.
    package static let attestationColumns = "digest, certificate_key, content, risk_metric, os_version"
    package static let attestationTables = "attestation LEFT JOIN receipt ON receipt.device = attestation.device"

    /// The columns that `ReceiptRefresh` is read from, in order.
    package static let receiptColumns = "created_at, next_at, asked_at, outcome, failures"

    /// The aggregates of `DeviceCount`: all, revoked, pending, and the last device.
    package static let deviceCounts = """
        count(*), coalesce(sum(CASE WHEN revoked_at IS NOT NULL THEN 1 ELSE 0 END), 0), \
        coalesce(sum(CASE WHEN revoked_at IS NULL AND activated_at IS NULL THEN 1 ELSE 0 END), 0), max(id)
        """

    /// Returns the query for a page of a section after the devices.
    ///
    /// - Parameter parameters: The placeholders: the sort key after which the page starts, then the limit.
    package static func exportQuery(_ section: ExportSection, parameters: (String, String, String)) -> String {
        let (first, second, third) = parameters
        return switch section {
        case .devices: preconditionFailure("devices are read by another query")
        case .certificates:
            "SELECT serial, binding, not_after FROM issued_certificate WHERE serial > \(first) ORDER BY serial LIMIT \(second)"
        case .usedTokens: "SELECT id, expires_at FROM used_token WHERE id > \(first) ORDER BY id LIMIT \(second)"
        case .revokedSubjects:
            "SELECT subject, revoked_at FROM revoked_subject WHERE subject > \(first) ORDER BY subject LIMIT \(second)"
        case .barredKeys:
            """
            SELECT key, kind, barred_at FROM barred_key WHERE (key, kind) > (\(first), \(second))
            ORDER BY key, kind LIMIT \(third)
            """
        }
    }
}

/// An error for a row that violates the schema, because the store is damaged or was written by another program.
package struct UnreadableRow: Error {
    package let table: StaticString

    package init(table: StaticString) {
        self.table = table
    }
}

extension SystemVersion {
    /// Reads the column `os_version`.
    ///
    /// - Returns: nil if the column is NULL.
    package init?(stored text: String?) throws {
        guard let text else { return nil }
        guard let version = SystemVersion(text) else { throw UnreadableRow(table: "attestation") }
        self = version
    }
}
