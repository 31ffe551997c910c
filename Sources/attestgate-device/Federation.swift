internal import ArgumentParser
internal import Cryptography
internal import DeviceSimulator
internal import Encoding
internal import Foundation
internal import TrustClient

struct Federation: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Be an agent of a federation: obtain tokens for services and other apps, find services, revoke.",
        discussion: """
            The response goes to standard output; its member access_token is the token. The device must be enrolled.

            Exit status: 0 success, 1 refused or something is missing, 2 usage error. Without a response, curl's exit \
            status.
            """,
        subcommands: [
            Register.self, Token.self, App.self, Code.self, Revoke.self, Used.self, Find.self, Protocols.self,
        ])

    /// The options of all commands.
    struct Options: ParsableArguments {
        @Option(help: ArgumentHelp("The federation.", valueName: "URL"))
        var federation: String

        @Option(help: ArgumentHelp("The device.", valueName: "DIR"), completion: .directory)
        var directory: String

        @Flag(help: "Present the certificate and prove the request, for `require: request-proof`.")
        var proof = false

        @OptionGroup(title: "Transfer") var transfer: TransferOptions

        func validate() throws {
            guard EnrolmentServiceAddress(url: federation) != nil else {
                throw ValidationError("--federation must have the form https://HOST[:PORT][/PATH]")
            }
        }

        private var base: String { EnrolmentServiceAddress(url: federation)?.url ?? federation }

        /// Sends a request and shows its response.
        private func send(_ method: String, _ path: String, _ lines: [HeaderLine], _ content: [UInt8]?) throws {
            let library = try LibraryContext()
            let device = try DeviceDirectory(opening: directory)
            let (transfer, resolve) = (transfer, CurlList(transfer.resolve))
            let curl = try CurlTransfer(isHTTP2: transfer.http2) { try transfer.apply(to: $0, device, resolve) }
            var plan = try RequestRunner.Plan(method: method, url: base + path, lines: lines, content: content)
            plan.hasProof = proof
            let runner = try RequestRunner(
                plan, PhoneOptions.parse([]).phone(device, library), isGenuine: true, curl, library,
                include: transfer.include, trace: { if transfer.verbose { Terminal.say($0) } })
            if try runner.run() >= 400 { throw ExitCode(1) }
        }

        fileprivate func post(_ path: String, _ parameters: [(String, String?)], token: String? = nil) throws {
            let form = parameters.compactMap { name, value in value.map { "\(name)=\(Self.encoded($0))" } }
            let type = HeaderLine(name: "Content-Type", value: "application/x-www-form-urlencoded")
            try send("POST", path, [type] + Self.authorization(token), Array(form.joined(separator: "&").utf8))
        }

        fileprivate func post(_ path: String, json texts: [String], token: String) throws {
            let list = texts.map { JSONWriter.quoted($0) }.joined(separator: ",")
            let type = HeaderLine(name: "Content-Type", value: "application/json")
            try send("POST", path, [type] + Self.authorization(token), Array("[\(list)]".utf8))
        }

        fileprivate func get(_ path: String, token: String) throws {
            try send("GET", path, Self.authorization(token), nil)
        }

        private static func authorization(_ token: String?) -> [HeaderLine] {
            token.map { [HeaderLine(name: "Authorization", value: "Bearer \($0)")] } ?? []
        }

        /// Encodes a value of a form.
        private static func encoded(_ text: String) -> String {
            text.utf8.map { byte in
                let isLetter = UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
                return isLetter || 0x30...0x39 ~= byte || "-._".utf8.contains(byte)
                    ? String(UnicodeScalar(byte)) : "%" + Hexadecimal.encode([byte]).uppercased()
            }.joined()
        }

        /// Returns an assertion that the certificate key has signed (RFC 7523).
        ///
        /// - Parameter claims: Further claims. Nil leaves one out.
        fileprivate func assertion(_ claims: [(String, String?)] = []) throws -> String {
            let library = try LibraryContext()
            let device = try DeviceDirectory(opening: directory)
            let key = try PrivateKey(pem: Array(Data(contentsOf: URL(filePath: device.certificateKeyPath))), library)
            guard let point = key.publicKey.uncompressedPoint,
                let instance = try device.hardwareKey(library).publicKey.keyID(library)
            else { throw SimulatorError("the keys of the device are not on P-256") }
            let now = Int64(Date().timeIntervalSince1970)
            let id = Base64URL.encode(instance.bytes)
            let identifier = Base64URL.encode(try library.randomBytes(16))
            let header = JSONWriter.object {
                $0.member("alg", "ES256")
                $0.object("jwk") {
                    $0.member("kty", "EC")
                    $0.member("crv", "P-256")
                    $0.member("x", Base64URL.encode(Array(point[1..<33])))
                    $0.member("y", Base64URL.encode(Array(point[33...])))
                }
            }
            let payload = JSONWriter.object { writer in
                writer.member("iss", id)
                writer.member("sub", id)
                writer.member("aud", base)
                writer.member("iat", now)
                writer.member("exp", now + 120)
                writer.member("jti", identifier)
                for (name, value) in claims { writer.member(name, value) }
            }
            let input = Base64URL.encode(header) + "." + Base64URL.encode(payload)
            let bytes = Array(input.utf8)
            let signature = try P256SigningKey(key, library).sign(digest: library.sha256(of: bytes.span))
            guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
                throw SimulatorError("the signature cannot be encoded")
            }
            return input + "." + Base64URL.encode(fixed)
        }
    }

    private static let assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    private static let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    struct Register: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Register the instance, and print its token.")

        @OptionGroup var options: Options

        @Option(help: ArgumentHelp("Only these words, separated by spaces.", valueName: "SCOPE"))
        var scope: String?

        @Option(help: ArgumentHelp("The version of the app that is stated.", valueName: "VERSION"))
        var appVersion: String?

        func run() throws {
            try options.post(
                "/token",
                [
                    ("grant_type", "client_credentials"), ("client_assertion_type", Federation.assertionType),
                    ("client_assertion", try options.assertion([("app_version", appVersion)])), ("scope", scope),
                ])
        }
    }

    struct Token: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Obtain a token for a service.")

        @OptionGroup var options: Options

        @Option(help: ArgumentHelp("The service's home page.", valueName: "URL"))
        var service: String

        @Option(help: ArgumentHelp("Only these words, separated by spaces.", valueName: "SCOPE"))
        var scope: String?

        func run() throws {
            try options.post(
                "/token",
                [
                    ("grant_type", Federation.grant), ("assertion", try options.assertion()), ("aud", service),
                    ("scope", scope),
                ])
        }
    }

    struct App: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Obtain a token for another app, from the token of a service.")

        @OptionGroup var options: Options

        @Option(help: ArgumentHelp("The member jti of the service's token.", valueName: "JTI"))
        var parent: String

        @Option(help: ArgumentHelp("The other app's id.", valueName: "ID"))
        var app: String

        @Option(help: ArgumentHelp("Only these words, separated by spaces.", valueName: "SCOPE"))
        var scope: String?

        func run() throws {
            try options.post(
                "/token",
                [
                    ("grant_type", Federation.grant),
                    ("assertion", try options.assertion([("azp", app), ("parent", parent)])), ("scope", scope),
                ])
        }
    }

    struct Code: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Obtain a code for a service.")

        @OptionGroup var options: Options

        @Option(help: ArgumentHelp("The service's home page.", valueName: "URL"))
        var service: String

        @Option(help: ArgumentHelp("Only these words, separated by spaces.", valueName: "SCOPE"))
        var scope: String?

        func run() throws {
            try options.post(
                "/authorize", [("assertion", try options.assertion()), ("aud", service), ("scope", scope)])
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a token of the device, and all that were derived from it.")

        @OptionGroup var options: Options

        @Argument(help: ArgumentHelp("The token.", valueName: "TOKEN"))
        var token: String

        func run() throws {
            try options.post(
                "/revoke",
                [
                    ("token", token), ("client_assertion_type", Federation.assertionType),
                    ("client_assertion", try options.assertion()),
                ])
        }
    }

    struct Used: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the services that the person has used.")

        @OptionGroup var options: Options
        @OptionGroup var token: InstanceToken

        func run() throws { try options.get("/service-discovery/user", token: token.token) }
    }

    struct Find: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a service.")

        @OptionGroup var options: Options
        @OptionGroup var token: InstanceToken

        @Argument(help: ArgumentHelp("The service's home page.", valueName: "URL"))
        var service: String

        func run() throws { try options.post("/service-discovery", json: [service], token: token.token) }
    }

    struct Protocols: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Find the services that speak all of some protocols.")

        @OptionGroup var options: Options
        @OptionGroup var token: InstanceToken

        @Argument(help: ArgumentHelp("The ids of the protocols.", valueName: "PROTOCOL"))
        var protocols: [String]

        func run() throws { try options.post("/protocol-discovery/protocol", json: protocols, token: token.token) }
    }

    struct InstanceToken: ParsableArguments {
        @Option(help: ArgumentHelp("The instance's token, as `register` prints it.", valueName: "TOKEN"))
        var token: String
    }
}
