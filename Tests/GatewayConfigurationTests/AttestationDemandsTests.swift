import Attestation
import Enrolment
import Testing
import Vocabulary

@testable import GatewayConfiguration

@Suite("Attestation settings in the conf file")
struct AttestationDemandsTests {
    private func demands(
        _ lines: String, environment: String = "production"
    ) throws -> AppConfiguration {
        let text = Conf.attested(
            replacing: "    environment: production\n    counter: window 64\n",
            by: "    environment: \(environment)\n" + lines)
        return try #require(try Conf.read(text).configuration.apps.first)
    }

    @Test("omitted settings have their defaults; that of categories depends on the environment")
    func defaults() throws {
        let production = try demands("")
        #expect(production.platforms == [.ios])
        #expect(production.validationCategories(in: .production) == [.testFlight, .appStore, .enterprise])
        #expect(production.minimumBundleVersion == nil)
        #expect(production.minimumSystem == nil)
        #expect(production.absentExtensions == .accept)
        #expect(production.clientData == .nonceAndTag)
        #expect(production.receipt == .optional)
        #expect(production.rootPath == nil)
        #expect(try demands("", environment: "development").validationCategories(in: .development) == [.development])
        #expect(try demands("", environment: "simulator").validationCategories(in: .simulator) == nil)
        #expect(
            try demands("    platforms: [ios, macos]\n").validationCategories(in: .production)
                == [.testFlight, .appStore, .enterprise, .developerID])
    }

    @Test("every given setting is kept")
    func everything() throws {
        let demands = try demands(
            """
                platforms: [macos, visionos]
                validation_categories: [app-store, 77]
                minimum_bundle_version: 1.20
                minimum_os: 17.10
                absent_extensions: refuse
                client_data: dsr
                receipt: required
                maximum_risk: 5

            """)
        #expect(demands.platforms == [.macos, .visionos])
        #expect(
            demands.validationCategories(in: .production) == [
                .appStore, AppConfiguration.ValidationCategory(number: 77),
            ])
        #expect(demands.minimumBundleVersion?.text == "1.20")
        #expect(demands.minimumSystem == SystemVersion("17.10"))
        #expect(demands.absentExtensions == .refuse)
        #expect(demands.clientData == .dsr)
        #expect(demands.receipt == .required(maximumRisk: 5))
        #expect(try self.demands("    receipt: required\n").receipt == .required(maximumRisk: nil))
    }

    // MARK: - The numbers of the verifier

    @Test("category names map to the verifier's numbers")
    func categories() {
        let known: [String: Attestation.ValidationCategory] = [
            "operating-system": .operatingSystem, "testflight": .testFlight, "development": .development,
            "app-store": .appStore, "enterprise": .enterprise, "developer-id": .developerID, "other": .other,
        ]
        let names = AppConfiguration.ValidationCategory.names.map { ($0.name, $0.category.number) }
        #expect(Dictionary(uniqueKeysWithValues: names) == known.mapValues(\.rawValue))
    }

    @Test("client data formats have the names that enrolment uses")
    func clientData() {
        #expect(
            AppConfiguration.ClientData.allCases.map(\.rawValue) == ClientDataFormat.allCases.map(\.rawValue))
    }

    @Test(
        "an accepted bundle version can be compared",
        arguments: ["1", "0", "007", "1.2.3.4.5.6.7.8", "999999999999999999.1"])
    func versions(text: String) throws {
        #expect(try demands("    minimum_bundle_version: '\(text)'\n").minimumBundleVersion?.text == text)
        #expect(Attestation.BundleVersion(text) != nil)
    }

    @Test(
        "a system version is taken with quotes and without, as it is written",
        arguments: ["17", "17.4", "17.10", "17.4.1"])
    func systemVersions(text: String) throws {
        for spelling in [text, "'\(text)'"] {
            #expect(try demands("    minimum_os: \(spelling)\n").minimumSystem == SystemVersion(text))
        }
        #expect(try demands("    minimum_os: 17.10\n").minimumSystem != SystemVersion("17.1"))
    }

    @Test(
        "a URL that the conf file accepts is accepted by enrolment",
        arguments: [
            "https://localhost", "https://localhost:8444", "https://[::1]:8444", "https://[2001:db8::1]",
            "https://a.example/phones/v1", "https://192.0.2.1:1/A%20b",
        ])
    func urls(text: String) throws {
        #expect(try ServiceURL.parse(text, mayEndWithSlash: false).text == text)
        #expect(ProviderURL(text) != nil)
    }
}
