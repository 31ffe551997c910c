public import ArgumentParser
internal import Cryptography
internal import DeviceSimulator
internal import EventLoop
internal import Foundation
internal import HTTP
public import LoadGeneration
internal import TLS
internal import Vocabulary

/// The command line of the load generator.
struct LoadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate-load",
        abstract: "Puts load on a TLS server that asks for client certificates, and measures what comes back.",
        discussion: """
            Closed loop: each connection sends its next request when the last is answered, with --parallel each of so many at \
            a time. With --rate, requests are due \
            at fixed times and latency counts from there. Exit code: 0 no request failed, 1 some did, 2 usage.
            """)

    @Option(
        help: """
            mtls (kept connections), handshake (one for each request), resumed (the same), idle (held open), attested \
            (kept connections, each request with a proof).
            """)
    var mode: LoadMode = .mtls
    @Option(help: "Connections open at the same time.")
    var connections = 50
    @Option(help: "Client certificates, each with a key of its own; one per connection unless given.")
    var devices: Int?
    @Option(help: "Seconds to measure.")
    var duration = 10.0
    @Option(help: "Requests in all, sent in no longer than --duration, without --warmup (all but idle; closed loop).")
    var requests: Int?
    @Option(help: "Seconds of load before the measurement.")
    var warmup = 1.0
    @Option(help: "Requests per second over all connections, sent on time whatever the server does (mtls, attested).")
    var rate: Double?
    @Option(help: "Seconds to hold the connections (idle).")
    var hold = 10.0

    @Option(help: "PEM file of the authority that the server's certificate chains to.")
    var ca: String?
    @Option(help: "Directory made by `attestgate pki init`: trusts its server CA, issues the devices' certificates.")
    var certificates: String?
    @Option(help: "PEM file with one client certificate (chain) for all devices.")
    var clientCertificate: String?
    @Option(help: "PEM file with its key.")
    var clientKey: String?

    @Option(
        help: ArgumentHelp("Make --devices N of this app, to be registered, in DIR; put no load.", valueName: "DIR"),
        completion: .directory)
    var prepare: String?
    @Option(help: ArgumentHelp("The app of the devices to prepare.", valueName: "ID"))
    var appId: String?
    @Option(
        help: ArgumentHelp("Devices made by --prepare and registered since (attested).", valueName: "DIR"),
        completion: .directory)
    var prepared: String?
    @Option(help: "When proofs are made (attested): live with each request, or ahead of the measurement.")
    var proofs: ProofTime = .live
    @Option(help: "Proofs made ahead, over all devices; live ones follow.")
    var stock = 100_000

    @Option(name: .customShort("X"), help: "Method.")
    var method = "GET"
    @Option(name: .customShort("d"), help: "Content of each request: DATA, or @FILE.")
    var data: String?
    @Option(name: .customShort("H"), help: "A field of each request: NAME: VALUE. May be given several times.")
    var header: [String] = []
    @Option(help: "IP:PORT to connect to, whatever the URL says.")
    var address: String?
    @Option(help: "Also report the CPU time of this process: the server's. May be given for each of several.")
    var serverPid: [Int32] = []
    @Flag(help: "Print one JSON object instead of the summary.")
    var json = false
    @Flag(help: "No progress on stderr.")
    var quiet = false
    @Flag(name: .customLong("http2"), help: "Speak HTTP/2 (HTTP/1.1 otherwise).")
    var http2 = false
    @Option(help: "Requests at the same time on each connection (mtls, attested; with --http2).")
    var parallel = 1
    @Argument(help: "https://HOST[:PORT]/PATH")
    var url: String?

    /// The most connections or devices: a client certificate and its TLS context take some 20 KiB each.
    private static let limit = 20_000
    /// More than any server admits on one connection; what is beyond its limit waits for a place.
    private static let parallelLimit = 1000

    mutating func validate() throws {
        if prepare != nil { return try validatePreparation() }
        guard let url, LoadURL(url) != nil else {
            throw ValidationError("\(url ?? "the URL") is not of the form https://HOST[:PORT]/PATH")
        }
        try validateProofs()
        guard (1...Self.parallelLimit).contains(parallel) else {
            throw ValidationError("--parallel is between 1 and \(Self.parallelLimit)")
        }
        guard parallel == 1 || http2 && (mode == .mtls || mode == .attested) else {
            throw ValidationError("--parallel is for --http2, and --mode mtls and attested")
        }
        guard (1...Self.limit).contains(connections), (1...Self.limit).contains(devices ?? 1) else {
            throw ValidationError("--connections and --devices are between 1 and \(Self.limit)")
        }
        for (name, seconds) in [("duration", duration), ("warmup", warmup), ("hold", hold)] {
            guard (0...86_400).contains(seconds) else {
                throw ValidationError("--\(name) is at most a day, in seconds")
            }
        }
        guard duration > 0 else { throw ValidationError("--duration is more than 0 seconds") }
        if let rate {
            guard mode == .mtls || mode == .attested else {
                throw ValidationError("--rate is for --mode mtls and attested")
            }
            guard (0.001...1_000_000).contains(rate) else {
                throw ValidationError("--rate is between 0.001 and 1000000 requests per second")
            }
        }
        if let requests {
            guard requests > 0, rate == nil, mode != .idle else {
                throw ValidationError("--requests is above 0, for every --mode but idle, and without --rate")
            }
        }
        guard (clientCertificate == nil) == (clientKey == nil) else {
            throw ValidationError("--client-certificate and --client-key belong together")
        }
        if certificates != nil, clientCertificate != nil {
            throw ValidationError("--certificates and --client-certificate exclude each other")
        }
        guard certificates != nil || ca != nil else {
            throw ValidationError("the server's authority is needed: --certificates DIR, or --ca FILE")
        }
    }

    private func validatePreparation() throws {
        guard url == nil else { throw ValidationError("--prepare puts no load, and takes no URL") }
        guard let appId, AppID(appId) != nil else {
            throw ValidationError("--app-id is of the form PREFIX.bundle.id or android:PACKAGE")
        }
        guard let devices, (1...DeviceFleet.sizeLimit).contains(devices) else {
            throw ValidationError("--devices is between 1 and \(DeviceFleet.sizeLimit)")
        }
    }

    private func validateProofs() throws {
        guard (mode == .attested) == (prepared != nil) else {
            throw ValidationError("--mode attested and --prepared DIR belong together")
        }
        guard mode != .attested || certificates != nil else {
            throw ValidationError("--mode attested needs --certificates DIR, to issue the devices' certificates")
        }
        guard (1...AttestedLoad.aheadLimit).contains(stock) else {
            throw ValidationError("--stock is between 1 and \(AttestedLoad.aheadLimit)")
        }
    }

    /// - Returns: the exit code.
    func execute() throws -> Int32 {
        let library = try LibraryContext()
        if let prepare { return try execute(preparing: prepare, library) }
        let plan = try makePlan()
        // A connection is one device's, so more devices than connections would have nothing to do.
        let fleet = try prepared.map {
            try DeviceFleet(
                opening: $0, first: min(connections, devices ?? connections), atLeast: devices ?? 1, library)
        }
        let contexts = try ClientContexts(self, keys: fleet?.members.map(\.certificateKey), library).make()
        let attested = try fleet.map {
            try AttestedLoad($0, plan.target, plan.request, proofs == .ahead ? .ahead(stock) : .live, library)
        }
        raiseDescriptorLimit()
        let console = Console(isQuiet: quiet)
        let report = try LoadRun(plan, contexts: contexts, attested: attested) { console.show($0) }.run()
        console.finish()
        print(json ? try JSONText.of(report) : report.summary)
        return report.failed == 0 && report.resumedEnough ? 0 : 1
    }

    private func execute(preparing directory: String, _ library: LibraryContext) throws -> Int32 {
        guard let appId, let app = AppID(appId), let devices else { return 2 }
        try DeviceFleet.create(directory, appID: app, count: devices, library)
        print("wrote \(directory)/registrations.jsonl: \(devices) devices to be registered")
        return 0
    }

    private var fields: [(name: String, value: String)] {
        get throws {
            try header.map { text in
                let parts = text.split(separator: ":", maxSplits: 1).map(String.init)
                guard parts.count == 2, parts[1].hasPrefix(" ") else {
                    throw ValidationError("-H is of the form NAME: VALUE")
                }
                return (parts[0], String(parts[1].dropFirst()))
            }
        }
    }

    private func makePlan() throws -> LoadPlan {
        guard let url, let target = LoadURL(url) else { throw ValidationError("the URL is no https URL") }
        guard let method = Method.allCases.first(where: { "\($0.name)" == method }) else {
            throw ValidationError("-X is one of \(Method.allCases.map { "\($0.name)" }.joined(separator: ", "))")
        }
        let body = try data.map { $0.hasPrefix("@") ? try readFile(String($0.dropFirst())) : Array($0.utf8) }
        let address =
            if let address { try SocketAddress(address) } else {
                firstAccepting(try SocketAddress.resolve(host: target.host, port: target.port))
            }
        var plan = LoadPlan(
            mode: mode, address: address, target: target,
            request: RequestTemplate(target, method: method, body: body, others: try fields), connections: connections,
            duration: .seconds(duration))
        plan.version = http2 ? .http2 : .http11
        plan.parallel = parallel
        plan.rate = rate
        plan.requests = requests
        plan.warmup = .seconds(warmup)
        plan.hold = .seconds(hold)
        plan.serverProcesses = serverPid
        return plan
    }

    /// Returns the first address that accepts a connection, or the first one. A server on 127.0.0.1 does not serve ::1,
    /// which `localhost` is first.
    private func firstAccepting(_ addresses: [SocketAddress]) -> SocketAddress {
        guard addresses.count > 1 else { return addresses[0] }
        return addresses.first { address in
            guard let socket = try? Socket.connect(to: address) else { return false }
            var connecting = pollfd(fd: socket.number, events: Int16(POLLOUT), revents: 0)
            return poll(&connecting, 1, 3000) == 1 && Int32(connecting.revents) & (POLLERR | POLLHUP) == 0
        } ?? addresses[0]
    }

    /// Each connection takes a descriptor; the usual soft limit of 1024 is there for programs that use `select`.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue)), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue)), &limit)
    }
}

extension LoadMode: ExpressibleByArgument {}

/// The values of --proofs.
enum ProofTime: String, ExpressibleByArgument, CaseIterable {
    case ahead
    case live
}

extension TimeSpan {
    fileprivate static func seconds(_ seconds: Double) -> TimeSpan { TimeSpan(nanoseconds: Int64(seconds * 1e9)) }
}

func readFile(_ path: String) throws -> [UInt8] {
    guard let data = FileManager.default.contents(atPath: path) else {
        throw ValidationError("\(path) cannot be read")
    }
    return Array(data)
}
