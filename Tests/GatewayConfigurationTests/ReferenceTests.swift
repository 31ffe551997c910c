import Testing

@testable import GatewayConfiguration

@Suite("The reference conf/attestgate.yaml")
struct ReferenceTests {
    private static let path =
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        + "/conf/attestgate.yaml"

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
        #expect(configuration.apps.map(\.counter) == [.strict])
        #expect(configuration.registry?.devices == 65_536)
        #expect(configuration.listeners.map(\.tls.policy) == defaults.listeners.map(\.tls.policy))
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
            section.settings.map { (path: section.path.isEmpty ? $0.name : "\(section.path).\($0.name)", setting: $0) }
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
                let path = section.path.isEmpty ? setting.name : "\(section.path).\(setting.name)"
                let comment = try #require(documented[path])
                #expect(comment.contains(range) || comment.contains("as the rate of a route"), "\(path): \(comment)")
                rangeCount += 1
            }
        }
        #expect(rangeCount > 60)
    }

    /// Returns a line without the mark of a comment before its key.
    private static func uncommented(_ line: Substring) -> Substring {
        guard let mark = line.firstRange(of: "# ") else { return line }
        let rest = line[mark.upperBound...]
        let key = rest.drop { $0 == " " || $0 == "-" }
        // A key may be commented out within a section that is.
        if key.hasPrefix("# ") {
            let inner = uncommented(rest)
            return inner == rest ? line : line[..<mark.lowerBound] + inner
        }
        guard let colon = key.firstIndex(of: ":"), names.contains(String(key[..<colon])) else { return line }
        return line[..<mark.lowerBound] + rest
    }

    private static let names = Set(Configuration.sections.flatMap(\.names))

    /// Returns the comment above the first occurrence of every key, by the path of the key. Names of upstreams are left
    /// out. A key that is commented out counts as well.
    private static func documented() throws -> [String: String] {
        let bytes = try FileReader.read(path, atMost: 1 << 20).get()
        var parents: [(indentation: Int, key: String)] = []
        var comment = ""
        var result: [String: String] = [:]
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false) {
            let isComment = line.drop { $0 == " " }.hasPrefix("#")
            let blanked = uncommented(line).replacing("- ", with: "  ")
            let text = blanked.drop { $0 == " " }
            guard let colon = text.firstIndex(of: ":"), text[..<colon].allSatisfy({ $0.isLowercase || $0 == "_" })
            else {
                comment = isComment ? comment + " " + text.drop { $0 == "#" || $0 == " " } : ""
                continue
            }
            let indentation = blanked.count - text.count
            parents.removeAll { $0.indentation >= indentation }
            let isUpstream = parents.map(\.key) == ["upstreams"] && indentation == 2
            if !isUpstream {
                parents.append((indentation, String(text[..<colon])))
                let path = parents.map(\.key).joined(separator: ".")
                if result[path] == nil { result[path] = comment }
            }
            comment = ""
        }
        return result
    }
}
