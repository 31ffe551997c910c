import Attestation
import Policy
import Testing
import Vocabulary

@testable import Gateway
@testable import Registry

@Suite("Decisions by certificate key")
struct RouteAccessTests {
    private let everywhere = AppSet(places: [0, 1], of: 2)

    private func device(
        _ standing: DeviceStatus = .active, app: UInt32 = 0, environment: AttestationEnvironment = .production,
        risk: UInt32? = nil, system: String? = nil, isKeyListed: Bool = false
    ) -> DeviceSnapshot {
        let bytes = [UInt8](repeating: 2, count: 32)
        guard let id = DeviceID(1), let key = KeyID(digest: bytes.span),
            let point = PublicPoint([4] + [UInt8](repeating: 3, count: 64))
        else { preconditionFailure("these are of the right form") }
        return DeviceSnapshot(
            id: id, binding: key, app: AppNumber(number: app), platform: .iOS, environment: environment,
            hardwareKey: key, point: point, standing: standing, shown: [], riskMetric: risk,
            systemVersion: system.flatMap(SystemVersion.init), isKeyListed: isKeyListed, slot: 0)
    }

    /// Apps 0 and 1 are configured, for production; 1 admits devices of risk 5 at most.
    private func code(
        _ lookup: DeviceLookup, _ requirement: Requirement, _ apps: AppSet? = nil, isSelfSigned: Bool = false,
        minimum: AppExtensionPolicy.MinimumSystem? = nil
    ) -> String {
        let standing = RouteAccess(lookup, isSelfSigned: isSelfSigned, on: requirement, admitting: apps ?? everywhere) {
            device in
            guard device.app.number < 2 else { return nil }
            return RouteAccess.App(
                place: Int(device.app.number), environment: .production, maximumRisk: device.app.number == 1 ? 5 : nil,
                minimumSystem: minimum)
        }
        return switch standing {
        case .certificate: "certificate"
        case .device(let app): "device of app \(app)"
        case .refused(let refusal): String(describing: refusal.denial.row.code)
        }
    }

    @Test("an unavailable store denies every route, including those for certificates", arguments: levels)
    func storeUnavailable(_ requirement: Requirement) {
        #expect(code(.storeUnavailable, requirement) == "store_unavailable")
    }

    @Test("a revoked device and an ended binding are denied at every requirement", arguments: levels)
    func barred(_ requirement: Requirement) {
        #expect(code(.found(device(.deviceRevoked)), requirement) == "device_revoked")
        #expect(code(.found(device(.bindingEnded)), requirement) == "device_mismatch")
    }

    @Test("a device whose attestation key was revoked is denied at every requirement", arguments: levels)
    func listed(_ requirement: Requirement) {
        #expect(code(.found(device(isKeyListed: true)), requirement) == "device_risky")
        #expect(code(.found(device(.deviceRevoked, isKeyListed: true)), requirement) == "device_revoked")
    }

    @Test("an unknown key passes only where no device is required")
    func unknown() {
        #expect(code(.unknown, .nothing) == "certificate")
        #expect(code(.unknown, .certificate) == "certificate")
        #expect(code(.unknown, .device) == "device_unknown")
        #expect(code(.unknown, .requestProof) == "device_unknown")
    }

    @Test("a self-signed certificate with an unbound key is denied everywhere", arguments: levels)
    func unknownSelfSigned(_ requirement: Requirement) {
        #expect(code(.unknown, requirement, isSelfSigned: true) == "device_unknown")
    }

    @Test("a self-signed certificate is judged by its device like any other", arguments: levels)
    func selfSigned(_ requirement: Requirement) {
        #expect(code(.found(device(.deviceRevoked)), requirement, isSelfSigned: true) == "device_revoked")
        #expect(code(.found(device(.bindingEnded)), requirement, isSelfSigned: true) == "device_mismatch")
        #expect(code(.storeUnavailable, requirement, isSelfSigned: true) == "store_unavailable")
        let allowed = !requirement.includesDevice ? "certificate" : "device of app 0"
        #expect(code(.found(device()), requirement, isSelfSigned: true) == allowed)
    }

    @Test("a known device passes where its app is admitted")
    func apps() {
        for requirement in [Requirement.device, .requestProof] {
            #expect(code(.found(device(app: 1)), requirement) == "device of app 1")
            #expect(code(.found(device(app: 1)), requirement, AppSet(places: [0], of: 2)) == "app_refused")
            #expect(code(.found(device(app: 7)), requirement) == "app_refused")
            #expect(code(.found(device(environment: .simulator)), requirement) == "app_refused")
        }
        #expect(code(.found(device(app: 7)), .certificate) == "certificate")
    }

    @Test("a device above its app's risk ceiling is denied at every requirement", arguments: levels)
    func risky(_ requirement: Requirement) {
        #expect(code(.found(device(app: 1, risk: 6)), requirement) == "device_risky")
        #expect(code(.found(device(app: 1, risk: .max)), requirement, isSelfSigned: true) == "device_risky")
        let allowed = !requirement.includesDevice ? "certificate" : "device of app 1"
        for risk: UInt32? in [nil, 0, 5] { #expect(code(.found(device(app: 1, risk: risk)), requirement) == allowed) }
    }

    @Test("without a ceiling the risk metric is ignored, and revocation is reported before risk")
    func riskElsewhere() {
        #expect(code(.found(device(risk: .max)), .device) == "device of app 0")
        #expect(code(.found(device(app: 7, risk: .max)), .certificate) == "certificate")
        #expect(code(.found(device(.deviceRevoked, app: 1, risk: 9)), .device) == "device_revoked")
        #expect(code(.found(device(.bindingEnded, app: 1, risk: 9)), .device) == "device_mismatch")
    }

    @Test("a device whose attestation states a system below the minimum is refused at every level", arguments: levels)
    func outdated(_ requirement: Requirement) throws {
        let allowed = !requirement.includesDevice ? "certificate" : "device of app 0"
        for absence in [AppExtensionPolicy.Absence.admitted, .refused] {
            let minimum = AppExtensionPolicy.MinimumSystem(try #require(SystemVersion("17.4")), absence: absence)
            for system in ["17.3.9", "17", "9.9"] {
                #expect(code(.found(device(system: system)), requirement, minimum: minimum) == "os_outdated")
            }
            for system in ["17.4", "17.10", "18"] {
                #expect(code(.found(device(system: system)), requirement, minimum: minimum) == allowed)
            }
            #expect(
                code(.found(device()), requirement, minimum: minimum)
                    == (absence == .admitted ? allowed : "os_outdated"))
        }
        #expect(code(.found(device(system: "1")), requirement) == allowed)
    }

    @Test("what is worse than an old system is denied first, and what is less is denied after it")
    func outdatedOrder() throws {
        let minimum = AppExtensionPolicy.MinimumSystem(try #require(SystemVersion("17.4")), absence: .refused)
        func code(_ device: DeviceSnapshot, _ requirement: Requirement = .requestProof) -> String {
            self.code(.found(device), requirement, AppSet(places: [], of: 2), minimum: minimum)
        }
        #expect(code(device(.deviceRevoked, system: "16")) == "device_revoked")
        #expect(code(device(.bindingEnded, system: "16")) == "device_mismatch")
        #expect(code(device(app: 1, risk: 6, system: "16")) == "device_risky")
        #expect(code(device(system: "16")) == "os_outdated")
        #expect(code(device(environment: .simulator, system: "16")) == "os_outdated")
        #expect(code(device(system: "18")) == "app_refused")
        // Of an app that is not configured nothing is demanded.
        #expect(code(device(app: 7, system: "16")) == "app_refused")
        #expect(code(device(app: 7, system: "16"), .certificate) == "certificate")
    }

    private static let levels: [Requirement] = [.nothing, .certificate, .device, .requestProof]
}
