internal import ArgumentParser
internal import CCurl
internal import Cryptography
internal import DeviceSimulator
internal import Foundation
internal import TrustClient

struct Wallet: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Obtain a client attestation, and send a request with it: the wallet profile.",
        discussion: """
            Without URL the attestation goes to standard output. Otherwise the response does: the request is a GET with \
            a challenge of the URL's host and a proof of possession.

            Exit status: 0 success, 1 refused or something is missing, 2 usage error, 22 status 400 or above with \
            --fail. Without a response, curl's exit status.
            """)

    @Option(help: ArgumentHelp("The enrolment service: https://HOST[:PORT][/PATH].", valueName: "URL"))
    var enrolment: String

    @Option(help: ArgumentHelp("The device, which is enrolled.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(help: ArgumentHelp("The resource identifier of the service (default: the URL's origin).", valueName: "ID"))
    var resource: String?

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @Argument(help: "https://HOST[:PORT]/PATH[?QUERY]")
    var url: String?

    func validate() throws {
        guard EnrolmentServiceAddress(url: enrolment) != nil else {
            throw ValidationError("--enrolment must have the form https://HOST[:PORT][/PATH]")
        }
        guard let url else {
            if resource != nil { throw ValidationError("--resource needs a URL") }
            return
        }
        guard RequestTarget(url: url) != nil else {
            throw ValidationError("\(url) is not an https URL in normal form")
        }
    }

    func run() throws {
        let device = try DeviceDirectory(opening: directory)
        let wallet = try SimulatedWallet(device)
        let (options, resolve) = (transfer, CurlList(transfer.resolve))
        let transfer = try CurlTransfer(isHTTP2: transfer.http2) { try options.apply(to: $0, device, resolve) }
        let attestation = try attestation(of: wallet, transfer)
        guard let url, let target = RequestTarget(url: url) else { return Terminal.put(line: attestation) }
        let origin = "https://\(String(decoding: target.authority, as: UTF8.self))"
        let challenge = try text(
            "attestation_challenge", of: origin + "/.well-known/attestgate/attestation-challenge", method: "POST", [],
            transfer)
        let proof = try wallet.proof(for: resource ?? origin, challenge: challenge, now: now)
        let lines = [
            HeaderLine(name: "OAuth-Client-Attestation", value: attestation),
            HeaderLine(name: "OAuth-Client-Attestation-PoP", value: proof),
        ]
        let (head, content) = try transfer.collect(CurlTransfer.Outgoing(method: "GET", url: url, lines: lines))
        if options.include { Terminal.put(head.bytes) }
        Terminal.put(content)
        if options.fail, head.status >= 400 { throw ExitCode(22) }
    }

    private var now: Int64 { Int64(Date().timeIntervalSince1970) }

    private func attestation(of wallet: SimulatedWallet, _ transfer: CurlTransfer) throws -> String {
        let base = EnrolmentServiceAddress(url: enrolment)?.url ?? enrolment
        let nonce = try text("nonce", of: base + "/nonce", method: "GET", nil, transfer)
        return try text(
            "wallet_instance_attestation", of: base + "/wallet-instance-attestations", method: "POST",
            wallet.request(nonce: nonce, now: now), transfer)
    }

    /// Returns a member of a JSON response.
    private func text(
        _ member: String, of url: String, method: String, _ content: [UInt8]?, _ transfer: CurlTransfer
    ) throws -> String {
        let lines = content == nil ? [] : [HeaderLine(name: "Content-Type", value: "application/json")]
        let (head, received) = try transfer.collect(
            CurlTransfer.Outgoing(method: method, url: url, lines: lines, content: content))
        let answer = try? JSONSerialization.jsonObject(with: Data(received)) as? [String: Any]
        guard head.status == 200, let text = answer?[member] as? String else {
            throw SimulatorError("\(url): status \(head.status) \(String(decoding: received, as: UTF8.self))")
        }
        return text
    }
}
