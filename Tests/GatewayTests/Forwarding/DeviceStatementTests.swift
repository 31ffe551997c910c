import Policy
import Registry
import Testing
import Vocabulary

@testable import Gateway

@Suite("What a route states of a device")
struct DeviceStatementTests {
    private let key: DeviceStatement.Key

    init() throws { key = DeviceStatement.Key(device: try #require(DeviceID(7)), generation: 1, route: 0) }

    private func text(_ fields: IdentityFields, person: String? = nil, _ posture: Posture) -> String {
        String(decoding: DeviceStatement(key, fields, person: person, posture).lines, as: UTF8.self)
    }

    @Test("an iPhone's facts: tokens, strings and integers of a dictionary, in the order of the table")
    func apple() {
        var posture = Posture(platform: .iOS, environment: .development, enrolledAt: 1_790_000_000, admission: .token)
        posture.system = SystemVersion("17.4")
        posture.app = AppVersion(bundleVersion: "1.2.3")
        posture.distribution = 4
        posture.keyProtection = .secureEnclave
        posture.risk = 3
        posture.attestedAt = 1_790_000_001
        #expect(
            text([.posture], posture)
                == "Attest-Posture: platform=ios, environment=development, os_version=\"17.4\", app_version=\"1.2.3\", "
                + "distribution=\"app-store\", key_protection=secure-enclave, risk=3, enrolled_at=1790000000, "
                + "attested_at=1790000001, admission=token\r\n")
    }

    @Test("an Android phone's facts: Booleans, dates and an inner list")
    func android() {
        var posture = Posture(platform: .android, enrolledAt: 1, admission: .open)
        posture.app = AppVersion(code: 42)
        posture.isCertificateKeyAttested = true
        posture.isBootloaderLocked = false
        posture.patchLevel = 202_601
        posture.vendorPatchLevel = 20_260_105
        posture.integrity = [.basic, .device]
        posture.integrityAt = 2
        #expect(
            text([.posture], posture)
                == "Attest-Posture: platform=android, environment=production, patch_level=\"2026-01\", "
                + "vendor_patch_level=\"2026-01-05\", app_version=\"42\", certificate_key_attested, "
                + "bootloader_locked=?0, play_integrity=(MEETS_BASIC_INTEGRITY MEETS_DEVICE_INTEGRITY), "
                + "play_integrity_at=2, enrolled_at=1, admission=open\r\n")
        posture.integrity = []
        #expect(text([.posture], posture).contains("play_integrity=(), "))
    }

    @Test("an integer that a structured field cannot have is left out")
    func integers() {
        var posture = Posture(platform: .iOS, enrolledAt: 1_000_000_000_000_000)
        posture.boundAt = 999_999_999_999_999
        let text = text([.posture], posture)
        #expect(!text.contains("enrolled_at") && text.contains("bound_at=999999999999999"))
    }

    @Test("the person stands alone, before the posture, or is left out if unknown")
    func person() {
        let posture = Posture(platform: .iOS, enrolledAt: 1)
        #expect(text([.subject], person: "ab", posture) == "Attest-Subject: ab\r\n")
        #expect(text([.subject], posture).isEmpty)
        let both = text([.subject, .posture], person: "ab", posture)
        #expect(both.hasPrefix("Attest-Subject: ab\r\nAttest-Posture: platform=ios, "))
    }
}
