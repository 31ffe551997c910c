internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding
internal import Foundation

struct VerifyDeviceToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device-token",
        abstract: "Explain a device token.",
        discussion: """
            Verifies it with the issuer's public keys. Exit status: 0 accepted, 1 refused, 2 usage error.
            """)

    @Option(
        help: ArgumentHelp("The issuer's JWK Set.", valueName: "FILE"), completion: .file())
    var jwks: String

    @Option(
        help: ArgumentHelp("The client's certificate, PEM or DER; without it not compared.", valueName: "FILE"),
        completion: .file())
    var certificate: String?

    @Option(help: ArgumentHelp("The claim that the certificate is compared with: x5t or sub.", valueName: "CLAIM"))
    var binding = BindingOption.x5t

    @Option(help: ArgumentHelp("The exact iss; without it not compared.", valueName: "NAME"))
    var issuer: String?

    @Option(
        name: .customLong("maximum-age"), help: ArgumentHelp("The maximum age in seconds.", valueName: "SECONDS"))
    var maximumAge = DeviceTokenDemands.standardAge

    @Option(help: ArgumentHelp("The time of arrival; default: now.", valueName: "RFC3339"))
    var at: TimeOption?

    @OptionGroup var output: VerifyOutput

    func validate() throws {
        guard (1...Int64(UInt32.max)).contains(maximumAge) else {
            throw ValidationError("--maximum-age is a number of seconds above 0")
        }
    }

    func run() throws {
        let library = try LibraryContext()
        let demands = DeviceTokenDemands(issuer: issuer, binding: binding.claim, maximumAge: maximumAge)
        let verifier: DeviceTokenVerifier
        do throws(CryptographyError) {
            verifier = try DeviceTokenVerifier(demands, keys: Self.read(jwks), library)
        } catch {
            throw ValidationError("\(jwks): \(error)")
        }
        let holder = try certificate.map { path in
            do throws(CryptographyError) { return try Self.holder(Self.read(path), library) } catch {
                throw ValidationError("\(path): \(error)")
            }
        }
        let text = try output.read()
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0d).contains(byte) }
        let token = Array(text.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
        let report = verifier.report(token, of: holder, at: at?.time.seconds ?? TimeOption.now)
        try output.finish(DeviceTokenExplanation(report: report, binding: binding.claim).verdict)
    }

    private static func read(_ file: String) -> [UInt8] {
        FileManager.default.contents(atPath: file).map { Array($0) } ?? []
    }

    private static func holder(
        _ bytes: [UInt8], _ library: LibraryContext
    ) throws(CryptographyError) -> DeviceTokenHolder {
        let certificate =
            bytes.first == 0x30
            ? try Certificate(der: bytes.span, library) : try Certificate.all(inPEM: bytes, library).first
        guard let certificate else { throw CryptographyError(doing: "read a certificate") }
        return DeviceTokenHolder(
            thumbprint: try certificate.thumbprint(library), key: try certificate.publicKey?.keyID(library))
    }
}

/// An argument with the claim that binds a token.
enum BindingOption: String, CaseIterable, ExpressibleByArgument {
    case x5t
    case sub

    var claim: DeviceTokenBinding {
        switch self {
        case .x5t: .x5t
        case .sub: .sub
        }
    }
}

/// The output of a report on a device token.
private struct DeviceTokenExplanation {
    let report: DeviceTokenReport
    let binding: DeviceTokenBinding

    var verdict: Verdict {
        Verdict(
            subject: "device token", isAccepted: report.isAccepted, steps: report.steps.map(step), causes: causes,
            notes: [], members: [("claims", report.token.map { ReportValue($0.claims) } ?? .null)], facts: facts)
    }

    private func step(_ entry: DeviceTokenReport.Entry) -> Verdict.Step {
        let (isPassed, detail): (Bool?, String) =
            switch entry.outcome {
            case .passed: (true, self.detail(of: entry.step))
            case .refused(let fault): (false, explain(fault))
            case .notReached: (nil, Verdict.Step.notReached)
            case .notDemanded: (nil, "not compared")
            }
        return Verdict.Step(name: entry.step.rawValue, title: "\(entry.step.title)", isPassed: isPassed, detail: detail)
    }

    private func detail(of step: DeviceTokenStep) -> String {
        switch step {
        case .form: "JWT"
        case .claims: "iss, iat, exp"
        case .issuer: text("iss")
        case .time:
            report.token.map { "from \(InternetTime(seconds: $0.issuedAt)) to \(InternetTime(seconds: $0.end))" } ?? ""
        case .binding: binding == .x5t ? "x5t#S256 is the certificate's" : "sub is the key's"
        case .signature: "by a key of the issuer"
        }
    }

    private func explain(_ fault: DeviceTokenFault) -> String {
        switch fault {
        case .issuer: "\(fault.reason): \(text("iss"))"
        case .fromTheFuture, .expired, .tooOld: "\(fault.reason): \(detail(of: .time))"
        case .checkFailed(let error): "\(fault.reason): \(error)"
        default: fault.reason
        }
    }

    private var causes: [String] {
        report.steps.compactMap(\.outcome.fault).compactMap { fault in
            switch fault {
            case .malformed: "This is no token, or it was truncated: it has three parts and two full stops."
            case .tooOld: "It was kept instead of renewed. --maximum-age accepts an older one."
            case .binding(.x5t): "The certificate was renewed, or the issuer puts another into cnf: see --binding sub."
            case .binding(.sub): "The token is another device's, or its key was replaced."
            case .keyUnknown: "The issuer has rotated its keys: get its JWK Set again."
            case .signature: "A changed byte, or the key of another issuer."
            default: nil
            }
        }
    }

    private var facts: [(String, String)] {
        guard let token = report.token else { return [] }
        return [
            ("issuer", text("iss")), ("subject", text("sub")), ("type", text("type")),
            ("issued", "\(InternetTime(seconds: token.issuedAt))"),
            ("expires", "\(InternetTime(seconds: token.expiry))"),
        ]
    }

    private func text(_ claim: String) -> String {
        report.token?.claims[claim]?.text.map { String(decoding: $0, as: UTF8.self) } ?? "none"
    }
}

extension ReportValue {
    fileprivate init(_ object: JSONObject) {
        self = .object(object.members.map { (String(decoding: $0.name, as: UTF8.self), ReportValue($0.value)) })
    }

    private init(_ value: JSONValue) {
        switch value {
        case .object(let object): self.init(object)
        case .array(let values): self = .array(values.map { ReportValue($0) })
        case .text(let text): self = .string(String(decoding: text, as: UTF8.self))
        case .integer(let number): self = .integer(number)
        case .boolean(let flag): self = .bool(flag)
        case .number, .null: self = .null
        }
    }
}
