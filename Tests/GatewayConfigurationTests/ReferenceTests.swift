import Foundation
import Testing

@testable import GatewayConfiguration

@Suite("The reference conf/attestgate.yaml", .serialized)
struct ReferenceTests {
    private static let path =
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        + "/conf/attestgate.yaml"

    private static func documented() throws -> [String: String] {
        Reference(try String(contentsOfFile: path, encoding: .utf8)).documented.mapValues(\.comment)
    }

    @Test("the reference has every setting; ATTESTGATE_UPDATE_DOCS=1 adds those that are new")
    func complete() throws {
        let text = try String(contentsOfFile: Self.path, encoding: .utf8)
        let whole = Reference(text).completed()
        if ProcessInfo.processInfo.environment["ATTESTGATE_UPDATE_DOCS"] == "1" {
            try whole.write(toFile: Self.path, atomically: true, encoding: .utf8)
        } else {
            // Not in the condition: it would print both texts.
            let isWhole = text == whole
            #expect(isWhole)
        }
    }

    @Test("a setting that the reference lacks is added behind the one before it, from its declaration")
    func added() throws {
        let text = try String(contentsOfFile: Self.path, encoding: .utf8)
        let fields = "  # Fields in a request's head: 8 to 256.\n  # Default: 100.\n  fields: 100\n"
        let parts = text.split(separator: fields, omittingEmptySubsequences: false)
        try #require(parts.count == 2)
        let whole = Reference(parts.joined()).completed()
        let added =
            "  # The maximum number of fields in a request head: 8 to 256.\n  # Default: 100.\n  fields: 100\n"
        #expect(whole == parts.joined(separator: added))
    }

    @Test("the reference loads, warns only of its software phones, and states the defaults")
    func loads() throws {
        let (configuration, warnings) = try Configuration.load(path: Self.path, files: Conf.anyFile)
        #expect(warnings.map(\.message).allSatisfy { $0.contains("accepts software phones") } && warnings.count == 1)
        let defaults = try Conf.read(Conf.valid).configuration
        #expect(configuration.workers == defaults.workers)
        #expect(configuration.upstreams == defaults.upstreams)
        #expect(configuration.proof == defaults.proof)
        #expect(configuration.limits == defaults.limits)
        #expect(configuration.timeouts == defaults.timeouts)
        #expect(configuration.log == defaults.log)
        #expect(configuration.denialURI == defaults.denialURI)
        #expect(Set(configuration.routes.map(\.contentLimit)) == Set(defaults.routes.map(\.contentLimit)))
        #expect(configuration.apps.map(\.counter) == [.window(1024)])
        #expect(configuration.registry?.devices == 65_536)
        #expect(configuration.listeners.map(\.tls?.policy) == defaults.listeners.map(\.tls?.policy))
        let enrolment = try #require(configuration.enrolment)
        #expect(enrolment.certificateLife == .seconds(2_592_000) && enrolment.rotationOverlap == .seconds(600))
        #expect(enrolment.nonceLife == .seconds(300) && enrolment.contentLimit == 64 << 10)
        #expect(enrolment.requestsPerMinute == 60)
        #expect(enrolment.connections == 1000 && enrolment.connectionsPerAddress == 32)
    }

    @Test("the reference documents exactly the existing settings, each with its default")
    func documentsEverySetting() throws {
        let documented = try Self.documented()
        let settings = Configuration.sections.flatMap { section in
            section.settings.map { (path: Reference.path(of: $0, in: section), setting: $0) }
        }
        #expect(Set(documented.keys) == Set(settings.map(\.path)))
        for (path, setting) in settings {
            let comment = try #require(documented[path], "\(path) is documented")
            switch setting.absence {
            case .refused: #expect(comment.contains("Required."), "\(path): \(comment)")
            case .allowed: #expect(comment.contains("Optional."), "\(path): \(comment)")
            case .means(let standard): #expect(comment.contains("Default: \(standard)"), "\(path): \(comment)")
            }
        }
    }

    @Test("every setting has a summary, and every section has each key once")
    func tables() {
        for section in Configuration.sections {
            #expect(Set(section.names).count == section.names.count)
            #expect(section.settings.allSatisfy { $0.summary.hasSuffix(".") && !$0.type.isEmpty })
        }
        #expect(Set(Configuration.sections.map(\.path)).count == Configuration.sections.count)
    }

    @Test("the reference states every range of the settings tables")
    func ranges() throws {
        let documented = try Self.documented()
        var rangeCount = 0
        for section in Configuration.sections {
            for setting in section.settings {
                guard let range = setting.type.firstMatch(of: #/from (\S+ to [^\s:;]+)/#)?.1 else { continue }
                let path = Reference.path(of: setting, in: section)
                let comment = try #require(documented[path])
                #expect(comment.contains(range) || comment.contains("as the rate of a route"), "\(path): \(comment)")
                rangeCount += 1
            }
        }
        #expect(rangeCount > 60)
    }
}
