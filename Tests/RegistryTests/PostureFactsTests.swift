import Testing
import Vocabulary

@testable import Registry

@Suite("Facts of a posture")
struct PostureFactsTests {
    @Test("facts have their names, in order, with their sources; unknown ones are left out")
    func facts() {
        var posture = Posture(platform: .android, environment: .simulator, enrolledAt: 1, admission: .approval)
        let least: [PostureFactName] = [.platform, .environment, .enrolledAt, .admission]
        #expect(posture.facts.map(\.name) == least)
        posture.system = SystemVersion("16")
        posture.app = AppVersion(code: 7)
        posture.distribution = 4
        posture.keyProtection = .strongBox
        posture.isCertificateKeyAttested = false
        posture.boot = .selfSigned
        posture.isBootloaderLocked = true
        posture.patchLevel = 202_601
        posture.vendorPatchLevel = 20_260_105
        posture.bootPatchLevel = 5
        posture.risk = 2
        posture.integrity = [.device]
        posture.integrityAt = 2
        posture.attestedAt = 3
        posture.boundAt = 4
        posture.claims = Claims(system: SystemVersion("15"), isDeviceSecure: true)
        let values: [PostureValue] = [
            .text("android"), .text("simulator"), .text("16.0"), .text("2026-01"), .text("2026-01-05"), .text("5"),
            .text("7"), .text("app-store"), .text("strongbox"), .flag(false), .text("self-signed"), .flag(true),
            .number(2), .texts(["MEETS_DEVICE_INTEGRITY"]), .time(2), .time(1), .time(3), .time(4), .text("approval"),
            .text("15.0"), .flag(true),
        ]
        #expect(posture.facts.map(\.name) == PostureFactName.allCases)
        #expect(posture.facts.map(\.value) == values)
        let own: [PostureFactName] = [.enrolledAt, .attestedAt, .boundAt, .admission]
        #expect(posture.facts.filter { $0.source == .registry }.map(\.name) == own)
        #expect(posture.facts.filter { $0.source == .attested }.count == values.count - own.count - 2)
        let claimed: [PostureFactName] = [.claimedSystem, .claimedDeviceSecure]
        #expect(posture.facts.filter { $0.source == .claimed }.map(\.name) == claimed)
    }

    @Test("a category of Apple has its name in conf files, and an unknown one its number")
    func distributions() {
        func name(_ number: UInt8) -> PostureValue? {
            var posture = Posture(platform: .iOS, enrolledAt: 1)
            posture.distribution = number
            return posture.facts.first { $0.name == .distribution }?.value
        }
        let names = [
            "operating-system", "testflight", "development", "app-store", "enterprise", "developer-id", "7", "8", "9",
            "other",
        ]
        for (number, text) in zip(UInt8(1)..., names) { #expect(name(number) == .text(text)) }
    }
}
