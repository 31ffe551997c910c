// swift-tools-version: 6.2
import PackageDescription

/// The settings of modules with raw memory or C. No unsafe flags: no package could depend on them.
let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

/// The settings of all other modules: the compiler refuses each unsafe construct that is not marked `unsafe`, as the
/// callbacks of nghttp2 in `HTTP` are.
let memorySafe: [SwiftSetting] = settings + [.strictMemorySafety()]

/// Full RELRO: function addresses are resolved at the start and then read-only. Of programs, which no package depends on.
let hardening: [LinkerSetting] = [
    .unsafeFlags(
        ["-Xlinker", "-z", "-Xlinker", "relro", "-Xlinker", "-z", "-Xlinker", "now"], .when(platforms: [.linux]))
]

/// Modules whose objects belong to one loop's thread and are used for every request: release builds do not check at run
/// time that accesses to a property do not overlap; debug and test builds do (docs/decisions, record 0067). No library
/// product contains them.
let hotPath: [SwiftSetting] = [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

/// Functions that return a span of their argument.
let lifetimes: [SwiftSetting] = [.enableExperimentalFeature("Lifetimes")]

let package = Package(
    name: "attestgate",
    // Only TrustClient and what it imports are for Apple's systems; the rest is for Linux.
    platforms: [.iOS(.v14), .macOS(.v11)],
    products: [
        .executable(name: "attestgate", targets: ["attestgate"]),
        .executable(name: "attestgate-device", targets: ["attestgate-device"]),
        // What apps link, with what its interface speaks of.
        .library(name: "TrustClient", targets: ["TrustClient", "RequestProof", "Vocabulary"]),
        // The verifier of attestations, with what its interface speaks of.
        .library(name: "Attestation", targets: ["Attestation", "Cryptography", "Encoding", "Vocabulary"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // C libraries: module maps and shims, nothing else.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev", "pkg-config"])]),
        .systemLibrary(
            name: "CLibevent", pkgConfig: "libevent_core", providers: [.apt(["libevent-dev", "pkg-config"])]),
        .systemLibrary(
            name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev", "pkg-config"])]),
        // Without pkgConfig: Debian 13's flags have a directory of Kerberos, which SwiftPM does not take, and none is needed.
        .systemLibrary(name: "CCurl"),
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev", "pkg-config"])]),
        .systemLibrary(name: "CLandlock"),
        .systemLibrary(name: "CLinux"),

        // The ground: codecs, values and bytes.
        .target(name: "Encoding", swiftSettings: memorySafe + lifetimes),
        .target(name: "Vocabulary", dependencies: ["Encoding"], swiftSettings: memorySafe),
        .target(name: "Bytes", swiftSettings: settings + lifetimes),

        // What all programs say of a command line that they do not understand.
        .target(
            name: "CommandUsage",
            dependencies: ["Vocabulary", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: memorySafe),

        // Each owns one C library, one protocol or one format.
        .target(name: "EventLoop", dependencies: ["CLibevent", "CLinux", "Bytes"], swiftSettings: settings + hotPath),
        .target(
            name: "HTTP", dependencies: ["CLinux", "CNghttp2", "Bytes", "Encoding", "EventLoop"],
            swiftSettings: memorySafe + lifetimes + hotPath),
        .target(name: "RequestProof", dependencies: ["Encoding", "Vocabulary"], swiftSettings: memorySafe + lifetimes),
        .target(
            name: "Cryptography", dependencies: ["COpenSSL", "Encoding", "Vocabulary"],
            swiftSettings: settings + lifetimes),
        .target(
            name: "TLS", dependencies: ["COpenSSL", "Cryptography", "Bytes", "EventLoop", "Vocabulary"],
            swiftSettings: settings + hotPath),
        .target(
            name: "Attestation", dependencies: ["Cryptography", "Encoding", "Vocabulary"],
            swiftSettings: memorySafe + lifetimes),
        .target(name: "Challenges", dependencies: ["Cryptography", "Encoding"], swiftSettings: memorySafe + lifetimes),
        .target(
            name: "GatewayConfiguration",
            dependencies: ["Encoding", "Vocabulary", .product(name: "Yams", package: "Yams")],
            swiftSettings: memorySafe),

        // Devices, bindings and counters, answered from memory; the witness of a store; one module for each store.
        .target(
            name: "Registry", dependencies: ["Encoding", "EventLoop", "Vocabulary"], swiftSettings: settings + hotPath),
        .target(
            name: "RevocationJournal", dependencies: ["Encoding", "EventLoop", "Registry", "Vocabulary"],
            swiftSettings: settings),
        .target(
            name: "RegistrySQLite",
            dependencies: [
                "Encoding", "EventLoop", "Registry", "RevocationJournal", "Vocabulary",
                .product(name: "GRDB", package: "GRDB.swift"), .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            swiftSettings: settings),
        .target(
            name: "RegistryPostgreSQL",
            dependencies: ["CLibpq", "EventLoop", "Registry", "RevocationJournal", "Vocabulary"],
            swiftSettings: settings),

        // Metrics, spans and log lines: their formats, and the thread that writes logs.
        .target(
            name: "Telemetry",
            dependencies: [
                "Bytes", "Encoding", "EventLoop",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: memorySafe),

        // The server role, the client role, the decision.
        .target(
            name: "Server", dependencies: ["EventLoop", "TLS", "HTTP", "Bytes"], swiftSettings: memorySafe + hotPath),
        .target(
            name: "Upstream", dependencies: ["EventLoop", "TLS", "HTTP", "Bytes", "Cryptography"],
            swiftSettings: memorySafe + hotPath),
        .target(
            name: "Policy", dependencies: ["Encoding", "HTTP", "Registry", "Vocabulary"], swiftSettings: memorySafe),

        // Spans to a collector, by OTLP.
        .target(
            name: "TelemetryExport", dependencies: ["Cryptography", "EventLoop", "Telemetry", "Upstream"],
            swiftSettings: memorySafe),

        // How devices become registered: what can be decided from bytes, and the service that does.
        .target(
            name: "Enrolment",
            dependencies: [
                "Attestation", "Bytes", "Challenges", "Cryptography", "Encoding", "EventLoop", "Gateway", "HTTP",
                "Registry", "Server", "TLS", "Telemetry", "Upstream", "Vocabulary",
            ],
            swiftSettings: memorySafe + lifetimes),

        // One app on a phone authorises other apps and services.
        .target(
            name: "Federation",
            dependencies: [
                "Attestation", "Bytes", "Cryptography", "Encoding", "Enrolment", "EventLoop", "Gateway", "HTTP",
                "Registry", "Server", "TLS", "Telemetry", "Upstream", "Vocabulary",
            ],
            swiftSettings: memorySafe + lifetimes),

        // What operators ask of a running gateway.
        .target(
            name: "Administration",
            dependencies: [
                "Bytes", "Cryptography", "Encoding", "EventLoop", "HTTP", "Registry", "RegistryPostgreSQL",
                "RegistrySQLite", "RevocationJournal", "Server", "TLS", "Vocabulary",
            ],
            // The page is part of the program: no file to be found, or exchanged, when it runs.
            resources: [.embedInCode("Page/Resources")], swiftSettings: memorySafe),

        // What becomes of a request.
        .target(
            name: "Gateway",
            dependencies: [
                "Attestation", "Bytes", "Challenges", "Cryptography", "Encoding", "EventLoop", "HTTP", "Policy",
                "Registry", "RequestProof", "Server", "TLS", "Telemetry", "TelemetryExport", "Upstream", "Vocabulary",
            ],
            swiftSettings: memorySafe + hotPath),

        // One running process by a conf file: the one place that puts the above together.
        .target(
            name: "Lifecycle",
            dependencies: [
                "Administration", "Attestation", "Bytes", "CLandlock", "CLinux", "Challenges", "Cryptography",
                "Encoding", "Enrolment", "EventLoop", "Federation", "Gateway", "GatewayConfiguration", "HTTP", "Policy",
                "Registry", "RegistryPostgreSQL", "RegistrySQLite", "RevocationJournal", "Server", "TLS", "Telemetry",
                "TelemetryExport", "Upstream", "Vocabulary",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "attestgate",
            dependencies: [
                "Administration", "Attestation", "CLinux", "CommandUsage", "Cryptography", "Encoding", "EventLoop",
                "GatewayConfiguration", "HTTP", "Lifecycle", "Registry", "RegistryPostgreSQL", "RegistrySQLite",
                "RevocationJournal", "Vocabulary",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings, linkerSettings: hardening),

        // The gateway with commits that do not outlive a power cut: a test shows that it notices.
        .executableTarget(
            name: "attestgate-undurable", dependencies: ["GatewayConfiguration", "Lifecycle", "RegistrySQLite"],
            path: "Tests/Undurable", swiftSettings: settings),

        // The client side, for apps: no system library below it. On Apple's systems CryptoKit is the cryptography.
        .target(
            name: "TrustClient",
            dependencies: [
                .target(name: "Cryptography", condition: .when(platforms: [.linux])), "Encoding", "RequestProof",
                "Vocabulary",
            ],
            swiftSettings: memorySafe + lifetimes),

        // What an app adds to TrustClient. Elsewhere than on Apple's systems it compiles against stubs.
        .target(
            name: "IOSExample", dependencies: ["TrustClient", "Vocabulary"], path: "examples/ios",
            swiftSettings: settings),

        // A software phone, and curl for attested requests: tools, no part of the gateway.
        .target(
            name: "DeviceSimulator",
            dependencies: ["COpenSSL", "Cryptography", "Encoding", "RequestProof", "TrustClient", "Vocabulary"],
            swiftSettings: settings),
        .executableTarget(
            name: "attestgate-device",
            dependencies: [
                "CCurl", "CommandUsage", "Cryptography", "DeviceSimulator", "Encoding", "RequestProof", "TrustClient",
                "Vocabulary",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings, linkerSettings: hardening),

        // The load generator: a tool for measuring, no part of the gateway.
        .target(
            name: "LoadGeneration",
            dependencies: [
                "Bytes", "CLinux", "CNghttp2", "Cryptography", "DeviceSimulator", "EventLoop", "HTTP", "TLS",
                "TrustClient",
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            path: "bench/LoadGeneration", swiftSettings: settings),
        .executableTarget(
            name: "attestgate-load",
            dependencies: [
                "CommandUsage", "Cryptography", "DeviceSimulator", "EventLoop", "HTTP", "LoadGeneration", "TLS",
                "Vocabulary",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "bench/attestgate-load", swiftSettings: settings, linkerSettings: hardening),
        .executableTarget(
            name: "attestgate-micro",
            dependencies: [
                "Attestation", "Bytes", "CAllocations", "CNghttp2", "CommandUsage", "COpenSSL", "Challenges",
                "Cryptography",
                "DeviceSimulator", "EventLoop", "HTTP", "Registry", "RegistrySQLite", "RequestProof", "Vocabulary",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "bench/attestgate-micro", swiftSettings: settings),
        // Counts allocations of whatever links it: of the above alone.
        .target(name: "CAllocations", path: "bench/CAllocations"),
        .testTarget(
            name: "LoadTests",
            dependencies: [
                "CNghttp2", "Cryptography", "DeviceSimulator", "EventLoop", "HTTP", "LoadGeneration", "RequestProof",
                "TrustClient", "Vocabulary",
            ],
            swiftSettings: settings),

        // What tests leave to chance: one seed for a run.
        .target(name: "Chance", path: "Tests/Chance", swiftSettings: memorySafe),

        // Vectors and helpers that several test targets read.
        .target(
            name: "TestVectors", dependencies: ["Bytes", "EventLoop"], path: "Tests/TestVectors",
            swiftSettings: settings),
        // A store in memory, and what tests of the registry share.
        .target(
            name: "RegistryMemory", dependencies: ["EventLoop", "Registry", "Vocabulary"], path: "Tests/RegistryMemory",
            swiftSettings: settings),
        .testTarget(
            name: "CryptographyTests", dependencies: ["COpenSSL", "Cryptography", "TestVectors", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "TLSTests", dependencies: ["Bytes", "COpenSSL", "Chance", "Cryptography", "TLS", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "AttestationTests",
            dependencies: [
                "Attestation", "COpenSSL", "Chance", "Cryptography", "DeviceSimulator", "Encoding", "TestVectors",
                "Vocabulary",
            ],
            swiftSettings: settings),
        .testTarget(name: "ChallengesTests", dependencies: ["Challenges", "Cryptography"], swiftSettings: settings),
        .testTarget(
            name: "EnrolmentTests",
            dependencies: [
                "Attestation", "Bytes", "Challenges", "Chance", "Cryptography", "DeviceSimulator", "Encoding",
                "Enrolment", "EventLoop", "Registry", "RegistrySQLite", "Server", "Telemetry", "TestVectors",
                "Upstream", "Vocabulary",
            ],
            swiftSettings: settings),
        .testTarget(
            name: "FederationTests",
            dependencies: ["Chance", "Federation", "Registry", "RegistryMemory"], swiftSettings: settings),
        .testTarget(
            name: "EncodingTests", dependencies: ["Chance", "Encoding", "TestVectors"], swiftSettings: settings),
        .testTarget(name: "VocabularyTests", dependencies: ["Vocabulary"], swiftSettings: settings),
        .testTarget(
            name: "CommandUsageTests",
            dependencies: ["CommandUsage", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: settings),
        .testTarget(name: "BytesTests", dependencies: ["Bytes"], swiftSettings: settings),
        .testTarget(
            name: "HTTPTests", dependencies: ["CNghttp2", "Chance", "HTTP", "Bytes", "EventLoop"],
            swiftSettings: settings),
        .testTarget(
            name: "RequestProofTests", dependencies: ["Chance", "Encoding", "RequestProof", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "TrustClientTests",
            dependencies: ["Cryptography", "Encoding", "RequestProof", "TestVectors", "TrustClient", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "DeviceSimulatorTests",
            dependencies: [
                "Attestation", "Challenges", "Cryptography", "DeviceSimulator", "Encoding", "Enrolment", "RequestProof",
                "TrustClient", "Vocabulary",
            ],
            swiftSettings: settings),
        .testTarget(
            name: "EventLoopTests", dependencies: ["EventLoop", "Bytes", "TestVectors"], swiftSettings: settings),
        .testTarget(
            name: "RegistryTests",
            dependencies: ["Chance", "Encoding", "EventLoop", "Registry", "RegistryMemory", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "RevocationJournalTests",
            dependencies: ["Encoding", "Registry", "RegistryMemory", "RevocationJournal", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "RegistrySQLiteTests",
            dependencies: [
                "Chance", "EventLoop", "Registry", "RegistryMemory", "RegistrySQLite", "RevocationJournal",
                "Vocabulary", .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            swiftSettings: settings),
        // With the suite that drives every store: it needs the server too.
        .testTarget(
            name: "RegistryPostgreSQLTests",
            dependencies: [
                "Chance", "EventLoop", "Registry", "RegistryMemory", "RegistryPostgreSQL", "RegistrySQLite",
                "RevocationJournal", "Vocabulary", .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: settings),
        .testTarget(
            name: "ServerTests", dependencies: ["Server", "Bytes", "EventLoop", "HTTP", "TestVectors"],
            swiftSettings: settings),
        .testTarget(
            name: "AdministrationTests",
            dependencies: [
                "Administration", "Bytes", "Chance", "Cryptography", "Encoding", "EventLoop", "HTTP", "Registry",
                "RegistryMemory",
                "RegistrySQLite", "Server", "TestVectors", "Vocabulary",
            ],
            swiftSettings: settings),
        .testTarget(
            name: "GatewayTests",
            dependencies: [
                "Attestation", "Bytes", "Chance", "Cryptography", "DeviceSimulator", "EventLoop", "Gateway", "HTTP",
                "Policy", "Registry", "RegistryMemory", "RequestProof", "TLS", "Telemetry", "TestVectors",
                "TrustClient", "Upstream", "Vocabulary",
            ],
            swiftSettings: settings),
        .testTarget(
            name: "LifecycleTests",
            dependencies: [
                "Cryptography", "EventLoop", "Gateway", "GatewayConfiguration", "Lifecycle", "TLS", "Vocabulary",
            ],
            swiftSettings: settings),
        .testTarget(name: "UpstreamTests", dependencies: ["Chance", "EventLoop", "Upstream"], swiftSettings: settings),
        .testTarget(
            name: "TelemetryTests",
            dependencies: [
                "Bytes", "Chance", "EventLoop", "Telemetry", "TestVectors",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        .testTarget(
            name: "TelemetryExportTests", dependencies: ["EventLoop", "TelemetryExport", "Upstream"],
            swiftSettings: settings),
        .testTarget(
            name: "PolicyTests", dependencies: ["Chance", "Encoding", "HTTP", "Policy", "Registry", "Vocabulary"],
            swiftSettings: settings),
        .testTarget(
            name: "GatewayConfigurationTests",
            dependencies: ["Attestation", "Chance", "Enrolment", "GatewayConfiguration"],
            swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)

// Fuzz targets have no `main` of their own, so they are executables only for `scripts/fuzz`. `scripts/test` compiles them.
if let use = Context.environment["ATTESTGATE_FUZZ"] {
    package.targets += [
        ("FuzzRequestHead", ["HTTP"]), ("FuzzResponseHead", ["HTTP"]), ("FuzzContentDecoder", ["HTTP"]),
        ("FuzzRequestStream", ["HTTP"]), ("FuzzHTTP2Session", ["Bytes", "EventLoop", "HTTP"]),
        ("FuzzHTTP2ClientSession", ["Bytes", "EventLoop", "HTTP"]),
        ("FuzzAssertion", ["Attestation", "Encoding"]),
        ("FuzzAttestation", ["Attestation", "Cryptography", "Vocabulary"]),
        ("FuzzKeyAttestation", ["Attestation", "Cryptography", "Encoding"]),
        ("FuzzReceipt", ["Attestation", "Cryptography", "Encoding"]), ("FuzzSignatureInput", ["RequestProof"]),
        ("FuzzEnrolmentJSON", ["Cryptography", "Encoding", "Enrolment"]),
        ("FuzzProxyHeader", ["EventLoop", "Server"]),
        ("FuzzForwardedClient", ["Encoding", "EventLoop", "Gateway"]),
        ("FuzzDecision", ["Encoding", "Policy"]),
        ("FuzzTokens", ["Attestation", "Challenges", "Cryptography", "Encoding", "Enrolment", "HTTP", "Vocabulary"]),
        ("FuzzFederation", ["Federation"]),
    ].map { name, modules in
        let modules: [Target.Dependency] = modules.map { .byName(name: $0) }
        return use == "compile"
            ? .target(name: name, dependencies: modules, path: "Fuzz/\(name)", swiftSettings: settings)
            : .executableTarget(name: name, dependencies: modules, path: "Fuzz/\(name)", swiftSettings: settings)
    }
}
