internal import Attestation
internal import GatewayConfiguration

extension AppExtensionPolicy {
    /// What the conf file demands of the app's extensions: at enrolment and of every request's assertion alike.
    init(_ app: AppConfiguration) throws(StartupError) {
        let demands = app.attestation
        let absence: Absence = demands.absentExtensions == .accept ? .admitted : .refused
        self.init()
        if let admitted = demands.validationCategories {
            categories = Categories(Set(admitted.map { ValidationCategory(rawValue: $0.number) }), absence: absence)
        }
        if let version = demands.minimumBundleVersion {
            guard let minimum = BundleVersion(version.text) else {
                throw StartupError("app \(app.id): minimum_bundle_version cannot be compared")
            }
            minimumVersion = MinimumVersion(minimum, absence: absence)
        }
        minimumSystem = demands.minimumSystem.map { MinimumSystem($0, absence: absence) }
    }
}
