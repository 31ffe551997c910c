internal import Vocabulary

/// Enrolment of Android phones.
public struct AndroidEnrolmentConfiguration: Equatable, ConfigurationSection {
    @Setting(.section, default: "{}", "Google's list of revoked attestation keys, and how it is kept current.")
    public var statusList: StatusListConfiguration

    static let section = Section("enrolment.android", of: Self.self)

    /// Returns the environments of apps whose phones are compared with the list: production always, software phones
    /// if the section is written.
    public func statusListEnvironments(of apps: [AppConfiguration]) -> Set<AppConfiguration.Environment> {
        let environments = Set(apps.filter(\.id.isAndroid).flatMap(\.environments))
        return _statusList.isWritten ? environments : environments.intersection([.production])
    }

    /// Returns the path of the copy of the list. Nil if none is kept.
    public func statusListCopyPath(for apps: [AppConfiguration]) -> String? {
        guard statusList.filePath == nil, !statusListEnvironments(of: apps).isEmpty else { return nil }
        return statusList.copyPath
    }
}

/// The status list of Android's attestation keys.
public struct StatusListConfiguration: Equatable, ConfigurationSection {
    @Setting(OutboundURL.kind, default: Self.google, "The URL of the list.")
    public var url: OutboundURL
    /// Nil if the list comes from the URL.
    @Setting(key: "file", .file("a readable JSON file"), "A file with the list, which another program keeps current.")
    public var filePath: String?
    @Setting(
        key: "authorities", .file("a readable PEM file"), "The authorities of the service's certificate.")
    var writtenAuthoritiesPath: String?
    @Setting(
        key: "copy", .fileToMake("the path of a file in a directory that exists"), isIndependent: true,
        "The file that keeps the last list for the next start; created with the first one.")
    var writtenCopyPath: String?
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(86_400)), unit: "between two fetches", default: "1h",
        "The interval of fetches; Cache-Control shortens or lengthens it, at most fourfold.")
    public var interval: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(3_600)), unit: "since the fetch", default: "1m",
        "The delay before a failed fetch is retried; it doubles with each failure, up to `interval`.")
    public var retry: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(60)), unit: "since the fetch began", default: "20s",
        "The timeout of a fetch, including the connection.")
    public var timeout: Duration
    @Setting(
        .wholeSeconds(.seconds(2) ... .seconds(2_592_000)), unit: "since the source confirmed the list", default: "2d",
        "The maximum age of the list; with an older one no Android phone can enrol.")
    public var staleAfter: Duration

    static let section = Section("enrolment.android.status_list", of: Self.self)

    private static let google = "https://android.googleapis.com/attestation/status"

    /// Debian's authorities unless the file names others. They are read only if an app demands the list.
    public var authoritiesPath: String { writtenAuthoritiesPath ?? ReceiptsConfiguration.systemBundle }

    /// The path of the file that keeps the last list of the URL. It need not exist; its directory does.
    public var copyPath: String {
        guard let writtenCopyPath else { preconditionFailure("the default is beside the registry's secret") }
        return writtenCopyPath
    }

    /// Sets the copy's path if the file has none, or one that was refused: beside a file that exists in any case.
    func setDefaultCopyPath(beside secretPath: String) {
        if writtenCopyPath == nil { _writtenCopyPath.derive(secretPath + ".status-list") }
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete, checkFile(reading) else { return false }
        if staleAfter <= interval {
            reading.refuse(
                _staleAfter.isWritten ? _staleAfter.place : _interval.place,
                "the list would be stale before the next fetch: `stale_after` (\(DurationText.format(staleAfter))) is not"
                    + " longer than `interval` (\(DurationText.format(interval)))",
                expected: "`stale_after` of more than \(DurationText.format(interval))")
            return false
        }
        guard filePath == nil else { return true }
        if !url.isEncrypted, _writtenAuthoritiesPath.isWritten {
            reading.warn(
                _writtenAuthoritiesPath.place, "`authorities` has no effect: \(url.text) is called without TLS",
                expected: "an https URL as `url`, or no `authorities`")
        }
        reading.mention(.server(url.server.description), at: _url.place)
        return true
    }

    /// Refuses beside a file what only fetches use.
    private func checkFile(_ reading: Reading) -> Bool {
        guard _filePath.isWritten else { return true }
        let places = [
            ("url", _url.isWritten, _url.place),
            ("authorities", _writtenAuthoritiesPath.isWritten, _writtenAuthoritiesPath.place),
            ("copy", _writtenCopyPath.isWritten, _writtenCopyPath.place),
            ("timeout", _timeout.isWritten, _timeout.place),
        ]
        guard let (key, _, place) = places.first(where: { $0.1 }) else { return true }
        reading.refuse(
            place, "`\(key)` has no effect beside `file`, which is read instead",
            expected: "`file` or `\(key)`, not both"
        )
        return false
    }
}

/// Rules between the status list and the rest of the conf file.
enum StatusListReferences {
    /// Places the copy beside the registry's secret, and warns of a list that no app uses.
    ///
    /// - Parameters:
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func check(
        _ android: AndroidEnrolmentConfiguration, _ apps: [AppConfiguration], _ registry: RegistryConfiguration,
        in root: Item, _ reading: Reading
    ) {
        android.statusList.setDefaultCopyPath(beside: registry.secretPath)
        let section = root["enrolment"]?["android"]?["status_list"]
        if let section, !apps.contains(where: \.id.isAndroid) {
            reading.warn(
                section.place, "`status_list` has no effect: no Android app is configured",
                expected: "an app whose id begins with android:")
        }
        if section?["copy"] == nil, let place = root["registry"]?.place(of: "secret") {
            reading.mention(.file(android.statusList.copyPath), at: place)
        }
    }
}
