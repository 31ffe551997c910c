public import Vocabulary

/// The requirements on an app's attestation at enrolment, besides being genuine.
public struct AttestationDemands: Equatable, Sendable {
    /// At least one platform, each once.
    public let platforms: [Platform]
    /// At least one category. Nil for any category: simulated phones have no such restriction unless the key is set.
    public let validationCategories: Set<ValidationCategory>?
    public let minimumBundleVersion: BundleVersion?
    /// The minimum version of the system that makes the attestation. Nil for any version.
    public let minimumSystem: SystemVersion?
    /// The treatment of a statement with neither category nor version.
    public let absentExtensions: AbsentExtensions
    public let clientData: ClientData
    public let receipt: Receipt
    /// The path of a PEM file with the root of simulated phones' attestations. Nil for other apps: they use Apple's
    /// root.
    public let rootPath: String?

    /// The systems on which the app may run.
    public enum Platform: String, CaseIterable, Sendable {
        /// iOS and iPadOS.
        case ios
        case macos
        case tvos
        case watchos
        case visionos
    }

    /// The reason for which the system trusts the app, as Apple's number.
    public struct ValidationCategory: Hashable, Sendable {
        public let number: UInt32
    }

    /// One to eight numbers of at most 18 digits, separated by full stops.
    public struct BundleVersion: Hashable, Sendable {
        public let text: String
    }

    public enum AbsentExtensions: String, CaseIterable, Sendable {
        case accept
        case refuse
    }

    /// The value that the app passes to `attestKey(_:clientDataHash:)`.
    public enum ClientData: String, CaseIterable, Sendable {
        case nonceAndTag = "nonce-and-tag"
        case nonce
        case dsr
    }

    public enum Receipt: Equatable, Sendable {
        case optional
        /// The highest accepted risk metric. Nil for any.
        case required(maximumRisk: UInt32?)

        enum Name: String, CaseIterable, Sendable {
            case required
            case optional
        }
    }
}

extension AttestationDemands {
    /// The keys that stand in the section of an app.
    enum Keys {
        static let platforms = Key(
            "platforms", .distinct(.choice as Kind<Platform>, minimum: 1), whenMissing: .means("[ios]"),
            "The systems on which the app may run.")
        static let validationCategories = Key(
            "validation_categories", .distinct(.validationCategory, minimum: 1, maximum: 32), whenMissing: .allowed,
            "How the app may have been installed.")
        static let minimumBundleVersion = Key(
            "minimum_bundle_version", .bundleVersion, whenMissing: .allowed,
            "The lowest CFBundleVersion of the app that is accepted.")
        static let minimumSystem = Key(
            "minimum_os", .systemVersion, whenMissing: .allowed,
            "The lowest system version of devices that is accepted.")
        static let absentExtensions = Key(
            "absent_extensions", .choice as Kind<AbsentExtensions>, whenMissing: .means("accept"),
            "Whether devices that state no category and no version are accepted.")
        static let clientData = Key(
            "client_data", .choice as Kind<ClientData>, whenMissing: .means("nonce-and-tag"),
            "The data that the app's attestations cover.")
        static let receipt = Key(
            "receipt", .choice as Kind<Receipt.Name>, whenMissing: .means("optional"),
            "Whether an attestation must contain a valid receipt.")
        static let maximumRisk = Key(
            "maximum_risk", .integer(0...Int(UInt32.max)), unit: "recently attested keys, counted by Apple",
            whenMissing: .allowed, "The highest risk metric that is accepted.")
        static let root = Key(
            "attestation_root", .file("a readable PEM file"), whenMissing: .allowed,
            "The root certificate of software phones' attestations.")

        static let settings = [
            platforms.setting, validationCategories.setting, minimumBundleVersion.setting, minimumSystem.setting,
            absentExtensions.setting, clientData.setting, receipt.setting, maximumRisk.setting, root.setting,
        ]
    }

    /// Reads the requirements from the section of an app.
    ///
    /// - Parameters:
    ///   - reader: the reader of the app's section.
    ///   - environment: the app's environment. Nil if it is refused.
    ///   - reading: the reading of the file.
    init?(_ reader: SectionReader, _ environment: AppConfiguration.Environment?, _ reading: Reading) {
        let platforms = reader.read(Keys.platforms)
        let categories = reader.read(Keys.validationCategories)
        let minimumBundleVersion = reader.read(Keys.minimumBundleVersion)
        let minimumSystem = reader.read(Keys.minimumSystem)
        let absentExtensions = reader.read(Keys.absentExtensions)
        let clientData = reader.read(Keys.clientData)
        let name = reader.read(Keys.receipt)
        let maximumRisk = reader.read(Keys.maximumRisk)
        let rootPath = reader.read(Keys.root)
        guard let platforms, categories != nil || !reader.has(Keys.validationCategories),
            minimumBundleVersion != nil || !reader.has(Keys.minimumBundleVersion),
            minimumSystem != nil || !reader.has(Keys.minimumSystem), let absentExtensions, let clientData, let name,
            maximumRisk != nil || !reader.has(Keys.maximumRisk),
            rootPath != nil || !reader.has(Keys.root), let environment
        else { return nil }
        guard rootPath == nil || environment == .simulator else {
            reading.refuse(
                reader.place(of: Keys.root),
                "`attestation_root` has no effect with `environment: \(environment.rawValue)`, which uses Apple's root",
                expected: "`environment: simulator`, or no `attestation_root`")
            return nil
        }
        guard let receipt = Receipt(name, maximumRisk, reader, reading) else { return nil }
        self.platforms = platforms
        validationCategories = categories.map { Set($0) } ?? Self.fitting(environment, platforms)
        self.minimumBundleVersion = minimumBundleVersion
        self.minimumSystem = minimumSystem
        self.absentExtensions = absentExtensions
        self.clientData = clientData
        self.receipt = receipt
        self.rootPath = rootPath
    }

    /// Returns the categories that an app of this environment can have.
    private static func fitting(
        _ environment: AppConfiguration.Environment, _ platforms: [Platform]
    ) -> Set<ValidationCategory>? {
        switch environment {
        case .production:
            // Only macOS has a further category besides these three.
            platforms.contains(.macos)
                ? [.testFlight, .appStore, .enterprise, .developerID] : [.testFlight, .appStore, .enterprise]
        case .development: [.development]
        case .simulator: nil
        }
    }
}

extension AttestationDemands.Receipt {
    fileprivate init?(_ name: Name, _ maximumRisk: Int?, _ reader: SectionReader, _ reading: Reading) {
        switch (name, maximumRisk) {
        case (.required, let maximumRisk): self = .required(maximumRisk: maximumRisk.map { UInt32(clamping: $0) })
        case (.optional, nil): self = .optional
        case (.optional, _?):
            reading.refuse(
                reader.place(of: AttestationDemands.Keys.maximumRisk),
                "a device could avoid `maximum_risk` by sending no receipt",
                expected: "`receipt: required`, or no `maximum_risk`")
            return nil
        }
    }
}

extension AttestationDemands.ValidationCategory {
    static let testFlight = Self(number: 2)
    static let development = Self(number: 3)
    static let appStore = Self(number: 4)
    static let enterprise = Self(number: 5)
    static let developerID = Self(number: 6)

    /// The names of Apple's numbers in the conf file.
    static let names: [(name: String, category: Self)] = [
        ("operating-system", Self(number: 1)), ("testflight", testFlight), ("development", development),
        ("app-store", appStore), ("enterprise", enterprise), ("developer-id", developerID), ("other", Self(number: 10)),
    ]
}

extension Kind where Value == AttestationDemands.ValidationCategory {
    /// A name or a number: Apple may add categories.
    fileprivate static var validationCategory: Kind {
        let names = Value.names.map(\.name)
        let shape = Shape.either([.choice(names), .integer(0...Int(UInt32.max))])
        return .text("one of: \(names.joined(separator: ", ")), or the number of another category", shape: shape) {
            text throws(InvalidValue) in
            if let known = Value.names.first(where: { $0.name == text }) { return known.category }
            guard let number = Decimal.parse(text[...]).flatMap({ UInt32(exactly: $0) }) else {
                throw InvalidValue(
                    "\(Printable.quoted(text)) is not a known value",
                    suggestion: Spelling.nearest(to: text, among: names))
            }
            return Value(number: number)
        }
    }
}

extension Kind where Value == SystemVersion {
    fileprivate static var systemVersion: Kind {
        .text("a system version: one to three numbers separated by full stops, such as \"17.4\"", shape: .version) {
            text throws(InvalidValue) in
            guard let version = SystemVersion(text) else {
                throw InvalidValue("\(Printable.quoted(text)) is not a system version")
            }
            return version
        }
    }
}

extension Kind where Value == AttestationDemands.BundleVersion {
    fileprivate static var bundleVersion: Kind {
        .text("a CFBundleVersion: one to eight numbers separated by full stops", shape: .version) {
            text throws(InvalidValue) in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            let isVersion = parts.allSatisfy { part in
                (1...18).contains(part.utf8.count)
                    && part.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
            }
            guard isVersion, (1...8).contains(parts.count) else {
                throw InvalidValue("\(Printable.quoted(text)) is not a bundle version")
            }
            return Value(text: text)
        }
    }
}
