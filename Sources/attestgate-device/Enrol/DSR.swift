internal import ArgumentParser
internal import DeviceSimulator
internal import Encoding
internal import Foundation
internal import TrustClient

/// Whose protocol an enrolment service has.
enum EnrolmentProfile: String, CaseIterable, ExpressibleByArgument {
    case attestgate
    /// gematik's Device Security Rating.
    case dsr
}

struct Card: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create a software health card, by which phones are registered with --profile dsr.",
        discussion: """
            Writes card.pem and card.key into the directory, and card-authority.pem and card-authority.key unless they \
            exist. The gateway trusts card-authority.pem in `enrolment.card.authorities`. Nothing is replaced.
            """)

    @Option(help: ArgumentHelp("The output directory.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(help: ArgumentHelp("The number of the insured person: a letter and nine digits.", valueName: "NUMBER"))
    var number = "X000000000"

    func validate() throws {
        guard number.utf8.count == 10, number.first.map({ ("A"..."Z").contains($0) }) == true,
            number.utf8.dropFirst().allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        else { throw ValidationError("\(number) is not a letter and nine digits, such as X123456789") }
    }

    func run() throws {
        for path in try SoftwareCard.create(in: directory, number: number) { Terminal.put(line: "wrote \(path)") }
    }
}

/// The endpoints of gematik's Geräte-Management-Service, at one of its two listeners.
struct DSRService {
    private let url: String
    private let transfer: CurlTransfer

    init(url: String, _ transfer: CurlTransfer) {
        self.url = url
        self.transfer = transfer
    }

    /// Returns a nonce as received.
    func nonce() throws -> String { text(try send("GET", "/nonce", expecting: 200)) }

    /// - Returns: the certificate in DER.
    func register(_ token: String) throws -> [UInt8] {
        struct Answer: Decodable {
            let cert: String
        }
        let content = JSONWriter.object { $0.member("token", token) }
        let answer: Answer = try read(try send("POST", "/register-device", content, expecting: 201))
        guard let certificate = Base64.decode(answer.cert) else {
            throw SimulatorError("the certificate is not base64")
        }
        return certificate
    }

    /// - Returns: a code for a device token.
    func attest(_ token: String, challenge: String) throws -> String {
        let content = JSONWriter.object { content in
            content.member("token", token)
            content.member("codeChallenge", challenge)
        }
        return text(try send("POST", "/device-attestation", content, expecting: 200))
    }

    func deviceToken(code: String, verifier: String) throws -> String {
        struct Answer: Decodable {
            let token: String
        }
        let form = FormText.encode([("code", code), ("code_verifier", verifier)])
        let answer: Answer = try read(
            try send(
                "POST", "/device-token", Array(form.utf8), type: "application/x-www-form-urlencoded", expecting: 200))
        return answer.token
    }

    private func text(_ content: [UInt8]) -> String { String(decoding: content, as: UTF8.self) }

    private func read<Answer: Decodable>(_ content: [UInt8]) throws -> Answer {
        do { return try JSONDecoder().decode(Answer.self, from: Data(content)) } catch {
            throw SimulatorError("the response is malformed")
        }
    }

    private func send(
        _ method: String, _ path: String, _ content: [UInt8]? = nil, type: String = "application/json",
        expecting status: Int
    ) throws -> [UInt8] {
        let lines = content == nil ? [] : [HeaderLine(name: "Content-Type", value: type)]
        var received: [UInt8] = []
        let head = try transfer.perform(
            CurlTransfer.Outgoing(method: method, url: url + path, lines: lines, content: content)
        ) { _, bytes in
            received += bytes
            return received.count <= EnrolmentAnswer.contentLimit
        }
        guard head.status == status else {
            throw SimulatorError("\(method) \(path) was refused: \(head.status) \(text(received))")
        }
        return received
    }
}

/// The encoding of forms and queries (application/x-www-form-urlencoded).
enum FormText {
    private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~".utf8)

    static func encode(_ parameters: [(name: String, value: String)]) -> String {
        parameters.map { "\(encode($0.name))=\(encode($0.value))" }.joined(separator: "&")
    }

    private static func encode(_ text: String) -> String {
        text.utf8.map { byte in
            plain.contains(byte)
                ? String(UnicodeScalar(byte)) : "%" + Hexadecimal.encode(UInt64(byte), digits: 2).uppercased()
        }.joined()
    }
}
