internal import ArgumentParser
internal import Cryptography
internal import DeviceSimulator
internal import Encoding
internal import Foundation
internal import TrustClient

/// The execution of `EnrolmentExchange`'s actions, with an output line for each step.
final class EnrolmentRunner {
    /// The exit code for a retry later (EX_TEMPFAIL of sysexits.h).
    private static let later = ExitCode(75)

    private let device: DeviceDirectory
    private let platform: any SimulatedPlatform
    private let transfer: CurlTransfer
    /// With the device's certificate.
    private let authenticatedTransfer: CurlTransfer
    /// The URL of the listener for enrolled devices. Nil if renewals need no certificate.
    private let devices: String?
    private let library: LibraryContext
    private let alteration: EnrolmentAlteration?

    init(
        _ device: DeviceDirectory, _ platform: any SimulatedPlatform, _ transfer: CurlTransfer,
        authenticated: CurlTransfer, devices: String?, _ library: LibraryContext, alteration: EnrolmentAlteration?
    ) {
        authenticatedTransfer = authenticated
        self.devices = devices
        self.device = device
        self.platform = platform
        self.transfer = transfer
        self.library = library
        self.alteration = alteration
    }

    private var now: Int64 { Int64(Date().timeIntervalSince1970) }

    func run(_ record: EnrolmentRecord, form: ClientDataForm, admissionToken: String?) throws {
        var key = try device.keyToBind()
        if alteration?.endpoint == .initialization {
            switch record.step {
            case .begun, .keyMade: break
            case .attested, .initialized, .bound:
                throw SimulatorError("the device is already attested: use a new directory for a new device")
            }
        }
        var exchange = EnrolmentExchange(
            record, point: key.point, form: form, admissionToken: admissionToken, devices: devices)
        var saved = record
        var action = exchange.begin()
        while true {
            // An alteration must not be stored in the device's record.
            if exchange.record != saved, alteration?.endpoint != .initialization {
                try device.keep(exchange.record)
                saved = exchange.record
            }
            do {
                switch action {
                case .makeKey:
                    let (keyID, tag) = try platform.makeKey()
                    Terminal.put(line: "hardware key \(keyID.base64)")
                    action = exchange.keyMade(keyID, tag: tag)
                case .provideKey:
                    try device.replaceKeyToBind(library)
                    key = try device.keyToBind()
                    Terminal.put(line: "made a new certificate key for a new hardware key")
                    // The admission token was for the other key.
                    action = exchange.keyProvided(key.point)
                case .attest(let keyID, let hash):
                    let hash = alteration?.clientDataHash(hash) ?? hash
                    let attestation = try platform.attest(keyID, clientDataHash: hash)
                    Terminal.put(line: "attested the hardware key: \(attestation.size)")
                    action = exchange.attested(attestation)
                case .assert(let keyID, let data):
                    let proof = try platform.prove(data, by: keyID)
                    Terminal.put(line: "asserted the certificate key with counter \(try device.counter.last())")
                    action = exchange.asserted(proof, now: now)
                case .sign(let message):
                    if let alteration, alteration.endpoint == .keyBinding, !alteration.replacesNonce {
                        let content = try alteration.keyBinding(signingInput: message, sign: key.signature)
                        let url = "\(record.isBound ? devices ?? record.service.url : record.service.url)/key-binding"
                        return try showAltered(
                            EnrolmentRequest.Endpoint.keyBinding,
                            send("POST", url, presentsCertificate: record.isBound && devices != nil, content))
                    }
                    action = exchange.signed(try key.signature(over: message))
                case .send(let request):
                    guard let answer = try answer(to: request, exchange.record) else { return }
                    action = exchange.answered(answer, now: now)
                case .finish(let certificate):
                    try device.keep(certificate, library)
                    return report(certificate)
                case .fail(let failure): throw error(for: failure)
                }
            } catch let fault as AttestorFault {
                action = exchange.attestorFailed(fault)
            }
        }
    }

    // MARK: - Requests

    /// Sends a request.
    ///
    /// - Returns: nil after the altered request, which is the last.
    private func answer(to request: EnrolmentRequest, _ record: EnrolmentRecord) throws -> EnrolmentAnswer? {
        if let alteration, request.endpoint == .nonce, alteration.replacesNonce, isLastNonce(record, alteration) {
            Terminal.put(line: "used an unknown nonce")
            return EnrolmentAlteration.foreignNonce
        }
        let isAltered = request.endpoint == alteration?.endpoint
        var content = request.content
        if isAltered, request.endpoint == .initialization, let alteration, let original = content {
            content = try alteration.initialization(original)
        }
        let answer = try send(
            request.method, request.url, presentsCertificate: request.presentsCertificate, content)
        if isAltered {
            try showAltered(request.endpoint, answer)
            return nil
        }
        if answer.status < 300 { Terminal.put(line: "\(request.method) \(request.url): \(answer.status)") }
        return answer
    }

    /// Returns whether the request after this nonce is the altered one.
    private func isLastNonce(_ record: EnrolmentRecord, _ alteration: EnrolmentAlteration) -> Bool {
        switch record.step {
        case .begun, .keyMade, .attested: alteration.endpoint == .initialization
        case .initialized, .bound: alteration.endpoint == .keyBinding
        }
    }

    private func send(
        _ method: String, _ url: String, presentsCertificate: Bool, _ content: [UInt8]?
    ) throws -> EnrolmentAnswer {
        var lines: [HeaderLine] = []
        if content != nil { lines.append(HeaderLine(name: "Content-Type", value: "application/json")) }
        let (head, received) = try (presentsCertificate ? authenticatedTransfer : transfer).collect(
            CurlTransfer.Outgoing(method: method, url: url, lines: lines, content: content))
        return EnrolmentAnswer(
            status: head.status, date: head.values("date").first, retryAfter: head.values("retry-after").first,
            content: received)
    }

    // MARK: - Output

    private func report(_ certificate: EnrolledCertificate) {
        let end = InternetTime.text(of: certificate.expiresAt)
        Terminal.put(line: "bound: \(device.certificatePath), good until \(end)")
    }

    private func showAltered(_ endpoint: EnrolmentRequest.Endpoint, _ answer: EnrolmentAnswer) throws {
        guard answer.status >= 300 else {
            Terminal.put(line: "the altered \(endpoint.rawValue) was accepted: \(answer.status)")
            return
        }
        Terminal.say("\(endpoint.rawValue) was refused: \(answer.refusal)")
        throw ExitCode(1)
    }

    private func error(for failure: EnrolmentFailure) -> any Error {
        guard case .refused(let refusal, let advice) = failure else {
            return SimulatorError("the enrolment failed: \(failure.inWords)")
        }
        let hint =
            switch advice {
            case .later: "try again later"
            case .awaitApproval: "an operator must approve the device; then run this command again"
            case .update: "the app or its system is too old for this service"
            case .updateSystem: "the system is too old: update it; then run this command again"
            case .newNonce, .newHardwareKey, .giveUp: "all attempts failed"
            }
        Terminal.say("\(refusal); \(hint)")
        return advice == .later || advice == .awaitApproval ? Self.later : ExitCode(1)
    }
}

extension KeyAttestation {
    fileprivate var size: String {
        switch self {
        case .appAttest(let bytes): "\(bytes.count) bytes"
        case .certificates(let chain): "\(chain.count) certificates"
        }
    }
}

extension EnrolmentFailure {
    fileprivate var inWords: String {
        switch self {
        case .refused(let refusal, _): "\(refusal)"
        case .attestor(let fault): "the hardware key or its attestation: \(fault)"
        case .answerUnreadable(let endpoint): "the response of \(endpoint.rawValue) is malformed"
        case .certificateForeign: "the received certificate is for another key"
        case .signatureUnreadable: "the assertion or the signature created here is malformed"
        case .admissionTokenMalformed: "the admission token is not a JWT in compact form, or is too long"
        case .signalsMalformed: "the signals are not a JSON object, or too long"
        case .instanceMalformed: "the id is not one of a list of devices"
        }
    }
}
