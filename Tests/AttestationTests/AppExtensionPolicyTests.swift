import Attestation
import Testing
import Vocabulary

@Suite("The policy for an assertion's extensions")
struct AppExtensionPolicyTests {
    /// Returns the fault, or nil.
    private func fault(
        _ policy: AppExtensionPolicy = AppExtensionPolicy(), category: ValidationCategory? = nil,
        version: String? = nil, after shown: ShownExtensions = []
    ) -> ExtensionFault? {
        // Ranges count from the beginning of the assertion, not of the version.
        let assertion = Array("9.9.9".utf8) + Array((version ?? "").utf8) + Array("9".utf8)
        var extensions = AppExtensions()
        extensions.validationCategory = category
        extensions.bundleVersion = version.map { 5..<(5 + $0.utf8.count) }
        do throws(ExtensionFault) {
            try policy.judge(extensions, of: assertion.span, after: shown)
            return nil
        } catch {
            return error
        }
    }

    @Test("without a policy every extension is accepted, and so is its absence")
    func noPolicy() {
        #expect(fault() == nil)
        #expect(fault(category: .development, version: "not a version") == nil)
    }

    @Test("only admitted categories are accepted; the policy decides about absence")
    func categories() {
        for absence in [AppExtensionPolicy.Absence.admitted, .refused] {
            let policy = AppExtensionPolicy(categories: .init([.appStore, .testFlight], absence: absence))
            #expect(fault(policy, category: .appStore) == nil)
            #expect(fault(policy, category: .development) == .validationCategory(.notAdmitted))
            #expect(fault(policy, category: ValidationCategory(rawValue: 77)) == .validationCategory(.notAdmitted))
            #expect(fault(policy) == (absence == .admitted ? nil : .validationCategory(.absent)))
        }
    }

    @Test("a version below the least or not comparable is refused; the policy decides about absence")
    func versions() throws {
        let least = try #require(BundleVersion("1.10"))
        for absence in [AppExtensionPolicy.Absence.admitted, .refused] {
            let policy = AppExtensionPolicy(minimumVersion: .init(least, absence: absence))
            for version in ["1.10", "1.10.0.0", "1.10.0.0.0.0.0.1", "1.11", "2"] {
                #expect(fault(policy, version: version) == nil, "\(version)")
            }
            for version in ["1.9.9", "1.2", "1", "0.99.99"] {
                #expect(fault(policy, version: version) == .bundleVersion(.notAdmitted), "\(version)")
            }
            for version in ["", "2.", ".2", "2.0b1", "2.0.0.0.0.0.0.0.0", "2000000000000000000"] {
                #expect(fault(policy, version: version) == .bundleVersion(.unreadable), "\(version)")
            }
            #expect(fault(policy) == (absence == .admitted ? nil : .bundleVersion(.absent)))
        }
    }

    @Test("system versions: none below the least, and absence means what the policy says")
    func systems() throws {
        let least = try #require(SystemVersion("17.10"))
        for absence in [AppExtensionPolicy.Absence.admitted, .refused] {
            let minimum = AppExtensionPolicy.MinimumSystem(least, absence: absence)
            let policy = AppExtensionPolicy(minimumSystem: minimum)
            for (text, refusal) in [
                ("17.10", nil), ("18", nil), ("17.4", ExtensionRefusal.notAdmitted), ("17.9.9", .notAdmitted),
            ] {
                #expect(policy.refusal(ofSystemVersion: text) == refusal)
                #expect(minimum.refusal(of: SystemVersion(text)) == refusal)
            }
            let absent: ExtensionRefusal? = absence == .admitted ? nil : .absent
            #expect(policy.refusal(ofSystemVersion: nil) == absent)
            #expect(minimum.refusal(of: nil) == absent)
            #expect(policy.refusal(ofSystemVersion: "27.0 beta") == .unreadable)
            // Assertions state no system version.
            #expect(fault(policy) == nil)
        }
        #expect(AppExtensionPolicy().refusal(ofSystemVersion: "anything") == nil)
    }

    @Test("an extension that a key has shown once is required from then on, whatever the policy")
    func withheld() {
        let both: ShownExtensions = [.validationCategory, .bundleVersion]
        #expect(fault(after: both) == .validationCategory(.withheld))
        #expect(fault(version: "1", after: both) == .validationCategory(.withheld))
        #expect(fault(category: .appStore, after: both) == .bundleVersion(.withheld))
        #expect(fault(category: .appStore, version: "1", after: both) == nil)
        #expect(fault(version: "1", after: .bundleVersion) == nil)
        let policy = AppExtensionPolicy(categories: .init([.appStore], absence: .admitted))
        #expect(fault(policy, after: .validationCategory) == .validationCategory(.withheld))
    }

    @Test("versions compare numerically, without regard to trailing zeros")
    func order() throws {
        let sorted = try ["0", "0.0.1", "1", "1.0.0.0.0.0.0.1", "1.9", "1.10", "2", "10", "999999999999999999"]
            .map { try #require(BundleVersion($0)) }
        for (left, first) in sorted.enumerated() {
            for (right, second) in sorted.enumerated() {
                #expect((first < second) == (left < right))
                #expect((first == second) == (left == right))
            }
        }
        #expect(BundleVersion("1.4") == BundleVersion("1.4.0"))
    }
}
