import Attestation
import Testing
import Vocabulary

@Suite("What an assertion's extensions are held to")
struct AppExtensionPolicyTests {
    /// - Returns: what is found wrong; nil if nothing is.
    private func fault(
        _ policy: AppExtensionPolicy = AppExtensionPolicy(), category: ValidationCategory? = nil,
        version: String? = nil, after shown: ShownExtensions = []
    ) -> ExtensionFault? {
        // Ranges count from the beginning of the assertion, which is not the version's.
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

    @Test("no policy admits everything that was never shown, and everything that is shown")
    func noPolicy() {
        #expect(fault() == nil)
        #expect(fault(category: .development, version: "not a version") == nil)
    }

    @Test("categories: none but those admitted, and absence means what the policy says")
    func categories() {
        for absence in [AppExtensionPolicy.Absence.admitted, .refused] {
            let policy = AppExtensionPolicy(categories: .init([.appStore, .testFlight], absence: absence))
            #expect(fault(policy, category: .appStore) == nil)
            #expect(fault(policy, category: .development) == .validationCategory(.notAdmitted))
            #expect(fault(policy, category: ValidationCategory(rawValue: 77)) == .validationCategory(.notAdmitted))
            #expect(fault(policy) == (absence == .admitted ? nil : .validationCategory(.absent)))
        }
    }

    @Test("versions: none below the least, none that cannot be compared, and absence means what the policy says")
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

    @Test("what a key has shown it must go on showing, whatever the policy says of absence")
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

    @Test("versions are equal whatever zeros stand at their end, and in the order of their numbers")
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
