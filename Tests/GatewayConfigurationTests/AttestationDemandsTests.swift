import Attestation
import Enrolment
import Testing

@testable import GatewayConfiguration

@Suite("What the conf file demands of attestations")
struct AttestationDemandsTests {
    private func demands(
        _ lines: String, environment: String = "production"
    ) throws -> AttestationDemands {
        let text = Conf.attested(
            replacing: "    environment: production\n    counter: window 64\n",
            by: "    environment: \(environment)\n" + lines)
        return try #require(try Conf.read(text).configuration.apps.first).attestation
    }

    @Test("what is not said has its default, which depends on the environment for categories")
    func defaults() throws {
        let production = try demands("")
        #expect(production.platforms == [.ios])
        #expect(production.validationCategories == [.testFlight, .appStore, .enterprise])
        #expect(production.minimumBundleVersion == nil)
        #expect(production.absentExtensions == .accept)
        #expect(production.clientData == .nonceAndTag)
        #expect(production.receipt == .optional)
        #expect(production.rootPath == nil)
        #expect(try demands("", environment: "development").validationCategories == [.development])
        #expect(try demands("", environment: "simulator").validationCategories == nil)
        #expect(
            try demands("    platforms: [ios, macos]\n").validationCategories
                == [.testFlight, .appStore, .enterprise, .developerID])
    }

    @Test("everything that is said is kept")
    func everything() throws {
        let demands = try demands(
            """
                platforms: [macos, visionos]
                validation_categories: [app-store, 77]
                minimum_bundle_version: 1.20
                absent_extensions: refuse
                client_data: dsr
                receipt: required
                maximum_risk: 5

            """)
        #expect(demands.platforms == [.macos, .visionos])
        #expect(demands.validationCategories == [.appStore, AttestationDemands.ValidationCategory(number: 77)])
        #expect(demands.minimumBundleVersion?.text == "1.20")
        #expect(demands.absentExtensions == .refuse)
        #expect(demands.clientData == .dsr)
        #expect(demands.receipt == .required(maximumRisk: 5))
        #expect(try self.demands("    receipt: required\n").receipt == .required(maximumRisk: nil))
    }

    // MARK: - The verifier's notions

    @Test("categories have the verifier's numbers")
    func categories() {
        let known: [String: Attestation.ValidationCategory] = [
            "operating-system": .operatingSystem, "testflight": .testFlight, "development": .development,
            "app-store": .appStore, "enterprise": .enterprise, "developer-id": .developerID, "other": .other,
        ]
        let names = AttestationDemands.ValidationCategory.names.map { ($0.name, $0.category.number) }
        #expect(Dictionary(uniqueKeysWithValues: names) == known.mapValues(\.rawValue))
    }

    @Test("forms of client data have the names that enrolment has for them")
    func clientData() {
        #expect(
            AttestationDemands.ClientData.allCases.map(\.rawValue) == ClientDataForm.allCases.map(\.rawValue))
    }

    @Test(
        "a bundle version that is taken can be compared",
        arguments: ["1", "0", "007", "1.2.3.4.5.6.7.8", "999999999999999999.1"])
    func versions(text: String) throws {
        #expect(try demands("    minimum_bundle_version: '\(text)'\n").minimumBundleVersion?.text == text)
        #expect(Attestation.BundleVersion(text) != nil)
    }

    @Test(
        "a URL that is taken is one that enrolment takes",
        arguments: [
            "https://localhost", "https://localhost:8444", "https://[::1]:8444", "https://[2001:db8::1]",
            "https://a.example/phones/v1", "https://192.0.2.1:1/A%20b",
        ])
    func urls(text: String) throws {
        #expect(try ServiceURL.parse(text, mayEndWithSlash: false).text == text)
        #expect(ProviderURL(text) != nil)
    }
}
