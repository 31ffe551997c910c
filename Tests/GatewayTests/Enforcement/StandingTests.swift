import Policy
import Testing
import Vocabulary

@testable import Gateway
@testable import Registry

@Suite("What a client may do by its certificate's key")
struct StandingTests {
    private let everywhere = AppSet(places: [0, 1], of: 2)

    private func device(
        _ standing: DeviceStanding = .active, app: UInt32 = 0, environment: AttestationEnvironment = .production,
        risk: UInt32? = nil
    ) -> DeviceSnapshot {
        let bytes = [UInt8](repeating: 2, count: 32)
        guard let id = DeviceID(1), let key = KeyID(digest: bytes.span),
            let point = PublicPoint([4] + [UInt8](repeating: 3, count: 64))
        else { preconditionFailure("these are of the right form") }
        return DeviceSnapshot(
            id: id, binding: key, app: AppNumber(number: app), platform: .iOS, environment: environment,
            hardwareKey: key, point: point, standing: standing, shown: [], riskMetric: risk, slot: 0)
    }

    /// Apps 0 and 1 are configured, for production; 1 admits devices of risk 5 at most.
    private func code(
        _ lookup: DeviceLookup, _ requirement: Requirement, _ apps: AppSet? = nil, isSelfSigned: Bool = false
    ) -> String {
        let standing = Standing(lookup, isSelfSigned: isSelfSigned, on: requirement, admitting: apps ?? everywhere) {
            device in
            guard device.app.number < 2 else { return nil }
            return Standing.App(
                place: Int(device.app.number), environment: .production, maximumRisk: device.app.number == 1 ? 5 : nil)
        }
        return switch standing {
        case .certificate: "certificate"
        case .device(_, let app): "device of app \(app)"
        case .refused(let refusal): String(describing: refusal.denial.row.code)
        }
    }

    @Test("a store that does not answer closes every route, those for certificates too", arguments: levels)
    func storeUnavailable(_ requirement: Requirement) {
        #expect(code(.storeUnavailable, requirement) == "store_unavailable")
    }

    @Test("a revoked device and an ended binding are refused at every level", arguments: levels)
    func barred(_ requirement: Requirement) {
        #expect(code(.found(device(.deviceRevoked)), requirement) == "device_revoked")
        #expect(code(.found(device(.bindingEnded)), requirement) == "device_mismatch")
    }

    @Test("an unknown key goes where a certificate is enough, and nowhere else")
    func unknown() {
        #expect(code(.unknown, .certificate) == "certificate")
        #expect(code(.unknown, .device) == "device_unknown")
        #expect(code(.unknown, .requestProof) == "device_unknown")
    }

    @Test("a self-signed certificate whose key is bound to nothing goes nowhere", arguments: levels)
    func unknownSelfSigned(_ requirement: Requirement) {
        #expect(code(.unknown, requirement, isSelfSigned: true) == "device_unknown")
    }

    @Test("a self-signed certificate is judged by its device as others are", arguments: levels)
    func selfSigned(_ requirement: Requirement) {
        #expect(code(.found(device(.deviceRevoked)), requirement, isSelfSigned: true) == "device_revoked")
        #expect(code(.found(device(.bindingEnded)), requirement, isSelfSigned: true) == "device_mismatch")
        #expect(code(.storeUnavailable, requirement, isSelfSigned: true) == "store_unavailable")
        let allowed = requirement == .certificate ? "certificate" : "device of app 0"
        #expect(code(.found(device()), requirement, isSelfSigned: true) == allowed)
    }

    @Test("a known device goes where its app is admitted")
    func apps() {
        for requirement in [Requirement.device, .requestProof] {
            #expect(code(.found(device(app: 1)), requirement) == "device of app 1")
            #expect(code(.found(device(app: 1)), requirement, AppSet(places: [0], of: 2)) == "app_refused")
            #expect(code(.found(device(app: 7)), requirement) == "app_refused")
            #expect(code(.found(device(environment: .simulator)), requirement) == "app_refused")
        }
        #expect(code(.found(device(app: 7)), .certificate) == "certificate")
    }

    @Test("a device above its app's ceiling is refused at every level", arguments: levels)
    func risky(_ requirement: Requirement) {
        #expect(code(.found(device(app: 1, risk: 6)), requirement) == "device_risky")
        #expect(code(.found(device(app: 1, risk: .max)), requirement, isSelfSigned: true) == "device_risky")
        let allowed = requirement == .certificate ? "certificate" : "device of app 1"
        for risk: UInt32? in [nil, 0, 5] { #expect(code(.found(device(app: 1, risk: risk)), requirement) == allowed) }
    }

    @Test("without a ceiling no metric says anything, and what is worse than a risk is said first")
    func riskElsewhere() {
        #expect(code(.found(device(risk: .max)), .device) == "device of app 0")
        #expect(code(.found(device(app: 7, risk: .max)), .certificate) == "certificate")
        #expect(code(.found(device(.deviceRevoked, app: 1, risk: 9)), .device) == "device_revoked")
        #expect(code(.found(device(.bindingEnded, app: 1, risk: 9)), .device) == "device_mismatch")
    }

    private static let levels: [Requirement] = [.certificate, .device, .requestProof]
}
