internal import ArgumentParser
internal import CCurl
internal import Cryptography
internal import DeviceSimulator
internal import Foundation
internal import TrustClient

struct Request: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a request with a proof: curl for attested requests.",
        discussion: """
            Fetches a challenge if none is stored, signs the request and sends it. If the gateway requires a new \
            challenge or a newer proof, it does so once more. Content goes to standard output, everything else to \
            standard error.

            The options from --sign-method to --corrupt, from --counter to --hardware-key, --unsigned-header and --no-proof \
            create requests that are refused. Such a request is never retried.

            Exit status: 0 response received, 1 no device or no challenge, 2 usage error, 22 status 400 or above \
            with --fail. Without a response, curl's exit status (with --parallel, that of the first failure): 7 no \
            connection, 16 no HTTP/2 with --http2, 28 timeout, 35 or 56 TLS refused, 60 server not trusted.
            """)

    @Option(
        help: ArgumentHelp("The device's directory, created by `create`.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(name: [.customShort("X"), .customLong("request")], help: "Method (GET, or POST with content).")
    var method: String?

    @Option(
        name: [.customShort("H"), .long], parsing: .unconditionalSingleValue,
        help: ArgumentHelp("A header line; can be repeated.", valueName: "N: V"))
    var header: [String] = []

    @Option(
        name: [.customShort("d"), .long], parsing: .unconditional,
        help: "The content: DATA or @FILE, sent unchanged.")
    var data: String?

    @Flag(help: "Send the same bytes again, and print both results.")
    var replay = false

    @Option(
        help: ArgumentHelp(
            """
            Send this number of requests at once, each with its own proof, and print one line for each. With --http2 \
            they share one connection.
            """, valueName: "M"))
    var parallel: Int?

    @Flag(help: "Print the proof's header lines and send no request (except for a challenge, if none is stored).")
    var printProof = false

    @Flag(help: "Send no proof.")
    var noProof = false

    @Flag(help: "Also retry after counter_replayed or counter_late: use it only if the request may be executed twice.")
    var idempotent = false

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("A header line that the proof does not cover.", valueName: "N: V"))
    var unsignedHeader: [String] = []

    @OptionGroup(title: "Transfer") var transfer: TransferOptions
    @OptionGroup(title: "The phone") var phone: PhoneOptions
    @OptionGroup(title: "Deliberate errors") var alterations: AlterationOptions

    @Argument(help: "https://HOST[:PORT]/PATH[?QUERY]")
    var url: String

    func validate() throws {
        guard RequestTarget(url: url) != nil else {
            throw ValidationError("\(url) is not an https URL in normal form")
        }
        for line in header + unsignedHeader where HeaderLine(line) == nil {
            throw ValidationError("\(line) is not of the form NAME: VALUE")
        }
        if let parallel {
            guard (1...Self.parallelLimit).contains(parallel) else {
                throw ValidationError("--parallel must be 1 to \(Self.parallelLimit)")
            }
            if printProof || transfer.include || phone.counter != nil {
                throw ValidationError("--parallel excludes --print-proof, --include and --counter")
            }
        }
        if noProof, printProof { throw ValidationError("--no-proof and --print-proof exclude each other") }
    }

    /// Limit of simultaneous HTTP/1.1 connections or streams.
    private static let parallelLimit = 1000

    func run() throws {
        let library = try LibraryContext()
        let device = try DeviceDirectory(opening: directory)
        let isVerbose = transfer.verbose
        let transfer = transfer
        let resolve = CurlList(transfer.resolve)
        let configure: (CurlSettings) throws -> Void = { try transfer.apply(to: $0, device, resolve) }
        let runner = try RequestRunner(
            plan(), phone.phone(device, library), isGenuine: phone.isGenuine,
            CurlTransfer(isHTTP2: transfer.http2, configure: configure), library, include: transfer.include,
            trace: { if isVerbose { Terminal.say($0) } })
        if printProof {
            for line in try runner.proofAlone().lines { Terminal.put(line: "\(line.name): \(line.value)") }
            return
        }
        let status: Int
        if let parallel {
            status = try runner.run(at: CurlGroup(parallel, onOneConnection: transfer.http2, configure: configure))
        } else {
            status = try runner.run()
        }
        if transfer.fail, status >= 400 { throw ExitCode(22) }
    }

    private func plan() throws -> RequestRunner.Plan {
        let content = try data.map(RequestBody.read)
        let method = method ?? (content == nil ? "GET" : "POST")
        var lines = header.compactMap(HeaderLine.init)
        // A field that curl would add must be known for the signature.
        if content != nil, !lines.contains(where: { $0.isNamed("content-type") }) {
            lines.append(HeaderLine(name: "Content-Type", value: "application/x-www-form-urlencoded"))
        }
        var plan = try RequestRunner.Plan(method: method, url: url, lines: lines, content: content)
        plan.unsigned = unsignedHeader.compactMap(HeaderLine.init)
        plan.alterations = try alterations.alterations()
        (plan.hasProof, plan.isIdempotent, plan.replays) = (!noProof, idempotent, replay)
        return plan
    }
}

extension RequestRunner.Plan {
    /// Plans a request with a genuine proof.
    init(method: String, url: String, lines: [HeaderLine], content: [UInt8]?) throws {
        guard var target = RequestTarget(url: url) else { throw ValidationError("\(url) is not an https URL") }
        let origin = "https://\(String(decoding: target.authority, as: UTF8.self))"
        if let host = lines.last(where: { $0.isNamed("host") })?.value { target.authority = Array(host.utf8) }
        let fields = lines.filter { !$0.isNamed("host") }
        let request: AttestedRequest
        do {
            request = try AttestedRequest(
                method: method, target: target,
                fields: fields.compactMap { line in line.value.map { (line.name, $0) } },
                content: content.map { .bytes($0) } ?? .none)
        } catch RequestFault.fieldReserved {
            throw ValidationError("-H cannot set the proof's own fields: use --unsigned-header")
        } catch {
            throw ValidationError("a header line has no field name")
        }
        self.init(
            request: request,
            outgoing: CurlTransfer.Outgoing(method: method, url: url, lines: lines, content: content),
            origin: origin, unsigned: [], alterations: ProofAlterations(), hasProof: true, isIdempotent: false,
            replays: false)
    }
}

/// Content given on the command line.
enum RequestBody {
    /// Reads the content.
    ///
    /// - Parameter argument: DATA or @FILE. A file is sent unchanged, including line ends (curl's `--data-binary`).
    static func read(_ argument: String) throws -> [UInt8] {
        argument.hasPrefix("@") ? try file(String(argument.dropFirst())) : Array(argument.utf8)
    }

    static func file(_ path: String) throws -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ValidationError("cannot read \(path)")
        }
        return Array(data)
    }
}
