import Policy
import Registry
import Testing
import Vocabulary

private func system(_ text: String) -> SystemVersion {
    guard let version = SystemVersion(text) else { preconditionFailure(text) }
    return version
}

private func app(_ code: Int64) -> AppVersion {
    guard let version = AppVersion(code: code) else { preconditionFailure("\(code)") }
    return version
}

private func app(_ text: String) -> AppVersion {
    guard let version = AppVersion(bundleVersion: text) else { preconditionFailure(text) }
    return version
}

@Suite("Conditions")
struct ConditionTests {
    private static let now: Int64 = 1_790_000_000

    private static var phone: Posture {
        var posture = Posture(platform: .android, enrolledAt: now - 1_000, admission: .token)
        posture.system = SystemVersion("16")
        posture.app = AppVersion(code: 42)
        posture.keyProtection = .trustedEnvironment
        posture.isCertificateKeyAttested = false
        posture.boot = .verified
        posture.isBootloaderLocked = true
        posture.patchLevel = 202_601
        posture.vendorPatchLevel = 20_260_105
        posture.bootPatchLevel = 20_251_205
        posture.integrity = [.basic, .device]
        posture.integrityAt = now - 86_400
        posture.attestedAt = now - 1_000
        posture.claims = Claims(isDeviceSecure: true)
        return posture
    }

    struct Example: CustomTestStringConvertible, Sendable {
        let condition: Condition
        let verdict: Condition.Verdict
        var testDescription: String { "\(condition.key) \(condition.requirement)" }

        init(_ condition: Condition, _ verdict: Condition.Verdict) {
            self.condition = condition
            self.verdict = verdict
        }
    }

    static let examples: [Example] = [
        Example(.minimumSystem(system("16.0")), .met), Example(.minimumSystem(system("16.1")), .failed),
        Example(.minimumApp(app(42)), .met), Example(.minimumApp(app(43)), .failed),
        Example(.keyProtection(.trustedEnvironment), .met), Example(.keyProtection(.strongBox), .failed),
        Example(.certificateKeyAttested, .failed), Example(.boot(.verified), .met), Example(.bootloaderLocked, .met),
        Example(.minimumPatchLevel(202_601), .met), Example(.minimumPatchLevel(202_602), .failed),
        Example(.minimumVendorPatchLevel(20_260_105), .met), Example(.minimumVendorPatchLevel(20_260_106), .failed),
        Example(.minimumBootPatchLevel(20_251_205), .met), Example(.minimumBootPatchLevel(20_251_206), .failed),
        Example(.integrity(.device), .met), Example(.integrity(.strong), .failed),
        Example(.integrityWithin(86_400), .met), Example(.integrityWithin(86_399), .failed),
        Example(.attestedWithin(1_000), .met), Example(.attestedWithin(999), .failed),
        Example(.admission([.approval, .token]), .met), Example(.admission([.open]), .failed),
        Example(.minimumClaimedSystem(system("16.0")), .met), Example(.claimedDeviceSecure, .met),
    ]

    @Test("are met exactly up to their limits", arguments: examples)
    func limits(_ example: Example) {
        #expect(example.condition.verdict(on: Self.phone, at: Self.now) == example.verdict)
    }

    @Test("fail on a fact that is not known", arguments: examples.map(\.condition).filter { $0.key != "admission" })
    func unknown(_ condition: Condition) {
        let bare = Posture(platform: .android, enrolledAt: 0)
        #expect(condition.verdict(on: bare, at: Self.now) == .unknown)
        let policy = DevicePolicy(name: "p", android: [condition])
        #expect(policy.verdict(on: bare, at: Self.now).violations == Violations(condition.violation))
    }

    @Test("take a patch level without a day for the time before the month's first")
    func months() {
        var posture = Self.phone
        posture.vendorPatchLevel = 202_602
        #expect(Condition.minimumVendorPatchLevel(20_260_131).verdict(on: posture, at: Self.now) == .met)
        #expect(Condition.minimumVendorPatchLevel(20_260_201).verdict(on: posture, at: Self.now) == .failed)
    }

    @Test("compare a patch level with a day by its month where a month is required")
    func days() {
        var posture = Self.phone
        posture.patchLevel = 20_251_231
        #expect(Condition.minimumPatchLevel(202_512).verdict(on: posture, at: Self.now) == .met)
        #expect(Condition.minimumPatchLevel(202_601).verdict(on: posture, at: Self.now) == .failed)
    }

    @Test("compare versions by their numbers")
    func versions() {
        var posture = Posture(platform: .iOS, enrolledAt: 0)
        posture.system = SystemVersion("17.10")
        #expect(Condition.minimumSystem(system("17.4")).verdict(on: posture, at: 0) == .met)
        posture.app = AppVersion(bundleVersion: "10.0.1")
        #expect(Condition.minimumApp(app("9.9.9")).verdict(on: posture, at: 0) == .met)
        #expect(Condition.minimumApp(app("10.0.2")).verdict(on: posture, at: 0) == .failed)
    }

    @Test("believe an app about its system only where the policy does, and nothing is attested")
    func claimed() {
        var posture = Posture(platform: .iOS, enrolledAt: 0)
        posture.claims = Claims(system: SystemVersion("17.4"), isDeviceSecure: false)
        let believing = Condition.minimumClaimedSystem(system("17.4"))
        let other = Condition.minimumSystem(system("17.4"))
        #expect(believing.verdict(on: posture, at: 0) == .met)
        #expect(other.verdict(on: posture, at: 0) == .unknown)
        #expect(Condition.claimedDeviceSecure.verdict(on: posture, at: 0) == .failed)
        posture.system = SystemVersion("17.3")
        #expect(believing.verdict(on: posture, at: 0) == .failed)
    }

    @Test("admit the listed ways of installation alone")
    func distribution() {
        var posture = Posture(platform: .iOS, enrolledAt: 0)
        let store = Condition.distribution(1 << 4)
        posture.distribution = 4
        #expect(store.verdict(on: posture, at: 0) == .met)
        for other in [0, 1, 2, 3, 5, 63, 64, 68, 255] as [UInt8] {
            posture.distribution = other
            #expect(store.verdict(on: posture, at: 0) == .failed)
        }
    }

    @Test("refuse a higher risk")
    func risk() {
        var posture = Posture(platform: .iOS, enrolledAt: 0)
        posture.risk = 5
        #expect(Condition.maximumRisk(5).verdict(on: posture, at: 0) == .met)
        posture.risk = 6
        #expect(Condition.maximumRisk(5).verdict(on: posture, at: 0) == .failed)
    }
}

@Suite("Device policies")
struct DevicePolicyTests {
    private static let now: Int64 = 1_790_000_000

    @Test("find everything that a device lacks")
    func everything() {
        var posture = Posture(platform: .iOS, enrolledAt: 0)
        posture.system = SystemVersion("17.3")
        posture.risk = 9
        posture.attestedAt = Self.now
        let policy = DevicePolicy(
            name: "p",
            apple: [.minimumSystem(system("17.4")), .maximumRisk(5), .attestedWithin(60)])
        let verdict = policy.verdict(on: posture, at: Self.now)
        #expect(verdict.violations.list == [.systemOutdated, .riskTooHigh])
        #expect(!verdict.isAllowed)
    }

    @Test("have no conditions for other platforms")
    func platforms() {
        let policy = DevicePolicy(name: "p", apple: [.maximumRisk(0)])
        #expect(policy.verdict(on: Posture(platform: .android, enrolledAt: 0), at: 0).isAllowed)
        for platform in Platform.allCases where platform != .android {
            #expect(!policy.verdict(on: Posture(platform: platform, enrolledAt: 0), at: 0).isAllowed)
        }
    }

    @Test("hold until the first fact is too old")
    func end() {
        var posture = Posture(platform: .android, enrolledAt: 0)
        posture.attestedAt = Self.now - 10
        posture.integrity = .device
        posture.integrityAt = Self.now - 50
        let policy = DevicePolicy(
            name: "p", android: [.attestedWithin(100), .integrity(.device), .integrityWithin(60)])
        let verdict = policy.verdict(on: posture, at: Self.now)
        #expect(verdict.isAllowed && verdict.end == Self.now + 10)
        #expect(policy.verdict(on: posture, at: verdict.end).isAllowed)
        #expect(policy.verdict(on: posture, at: verdict.end + 1).violations == Violations(.integrityTooOld))
    }

    @Test("leave what a proof states until the proof is verified")
    func proof() {
        var posture = Posture(platform: .iOS, enrolledAt: 0)
        posture.app = AppVersion(bundleVersion: "1")
        let policy = DevicePolicy(
            name: "p", apple: [.minimumApp(app("2"))],
            android: [.minimumApp(app(2))])
        let early = policy.verdict(on: posture, at: 0, awaitsProof: true)
        #expect(early.isAllowed && !early.isFinal)
        #expect(!policy.verdict(on: posture, at: 0).isAllowed)
        // Android's proofs state nothing.
        var phone = Posture(platform: .android, enrolledAt: 0)
        phone.app = AppVersion(code: 1)
        #expect(!policy.verdict(on: phone, at: 0, awaitsProof: true).isAllowed)
    }
}

@Suite("Postures as text")
struct PostureReaderTests {
    @Test("are read as decision points see them")
    func roundTrip() throws {
        var posture = Posture(platform: .android, environment: .simulator, enrolledAt: 1_790_000_000, admission: .open)
        posture.system = SystemVersion("16.0.1")
        posture.app = AppVersion(code: 7)
        posture.keyProtection = .strongBox
        posture.isCertificateKeyAttested = true
        posture.boot = .selfSigned
        posture.isBootloaderLocked = false
        posture.patchLevel = 202_601
        posture.vendorPatchLevel = 20_260_105
        posture.bootPatchLevel = 20_260_105
        posture.integrity = [.basic, .strong]
        posture.integrityAt = 1_790_000_001
        posture.attestedAt = 1_790_000_002
        posture.boundAt = 1_790_000_003
        let question = question(posture)
        let document = try question.document(by: DecisionSettings(format: .opa, facts: .posture))
        let text = String(decoding: document, as: UTF8.self)
        let inner = text.dropFirst(#"{"input":"#.count).dropLast()
        #expect(try Posture(parsing: Array(inner.utf8)) == posture)
    }

    @Test("are refused if a member is no fact, or has another form")
    func mistakes() {
        for text in [
            "{}", #"{"platform":"symbian"}"#, #"{"platform":"ios","os":"17"}"#, #"{"platform":"ios","os_version":17}"#,
            #"{"platform":"ios","os_version":"17.x"}"#, #"{"platform":"android","risk":"5"}"#,
            #"{"platform":"android","patch_level":"2026"}"#, #"{"platform":"android","bootloader_locked":"yes"}"#,
            #"{"platform":"android","play_integrity":"MEETS_DEVICE_INTEGRITY"}"#, "[]", "",
        ] {
            #expect(throws: PostureFault.self, "\(text)") { try Posture(parsing: Array(text.utf8)) }
        }
    }

    private func question(_ posture: Posture) -> DecisionQuestion {
        var question = DecisionQuestion(method: "GET", route: "r", host: "h", path: "/", client: .device("d"))
        question.posture = posture
        return question
    }
}
