internal import Attestation
internal import Enrolment
internal import EventLoop
internal import GatewayConfiguration

extension StatusListSettings {
    /// Reads the files. A file with the list is read once to report faults now; it is read again while serving.
    ///
    /// - Parameter warnings: Receives doubtful settings.
    /// - Returns: nil if no app demands a list.
    init?(
        _ android: AndroidEnrolmentConfiguration, _ configuration: Configuration, warnings: inout [StartupWarning]
    ) throws(StartupError) {
        let environments = Set(android.statusListEnvironments(of: configuration.apps).map(AndroidApp.Environment.init))
        guard !environments.isEmpty else { return nil }
        let list = android.statusList
        let source: Source
        if let path = list.filePath {
            source = .file(path)
            if let fault = Self.fault(inFile: path) {
                warnings.append(StartupWarning("status_list: \(path): \(fault)", of: .file(path)))
            }
        } else {
            let service = try FetchedService(
                list.url, path: list.url.path, authorities: list.authoritiesPath, timeout: list.timeout,
                of: "status_list", configuration, warnings: &warnings)
            source = .service(service, copyPath: list.copyPath)
        }
        self.init(
            source: source, environments: environments, interval: list.interval.components.seconds,
            retry: list.retry.components.seconds, staleAfter: list.staleAfter.components.seconds)
    }

    /// Returns what is wrong with the list in a file. It does not prevent the start, so that enrolled phones are served.
    private static func fault(inFile path: String) -> String? {
        let content: [UInt8]
        do throws(FileContents.Failure) { content = try FileContents.read(path) } catch { return error.reason }
        return StatusListFile.fault(in: content).map { "\($0), so no Android phone can enrol" }
    }
}

extension AndroidApp.Environment {
    /// There is no development environment of Android: such apps are refused.
    fileprivate init(_ environment: AppConfiguration.Environment) {
        self = environment == .simulator ? .simulator : .production
    }
}
