internal import Encoding
public import Vocabulary

/// The state machine of one enrolment, renewal or rotation, from any progress to the certificate. It performs no I/O.
///
/// Carry out each action and pass its result to the method that the action names, which returns the next action.
/// Whenever `record` has changed, store it **before** carrying out the action. An app may end at any moment, and a key
/// is attested only once.
///
/// | the app ended, or an answer was lost | the next exchange |
/// |---|---|
/// | before the hardware key was attested | attests it, or makes another key if the platform refuses |
/// | between attestation and its answer | sends the same bytes again; if the nonce has expired, tests whether they had arrived |
/// | between key binding and its answer | binds the same certificate key again, which renews it |
///
/// Use the same certificate key until the exchange has finished, unless it asks for another. A rotation uses a new key
/// and keeps the old one until then.
public struct EnrolmentExchange: Equatable, Sendable {
    public enum Action: Equatable, Sendable {
        /// Call `Attestor.generateKey`, then `keyMade` or `attestorFailed`.
        case makeKey
        /// Make another certificate key and store its name durably, then call `keyProvided`: the service may have bound
        /// the present one to a hardware key that is replaced, and binds it to no other.
        case provideKey
        /// Send the request, then call `answered`.
        case send(EnrolmentRequest)
        /// Call `Attestor.attestation`, then `attested` or `attestorFailed`. On Android the hash is the challenge.
        case attest(KeyID, clientDataHash: [UInt8])
        /// Call `Attestor.assertion`, then `asserted` or `attestorFailed`. On Android sign the client data.
        case assert(KeyID, KeyBindingClientData)
        /// Call `CertificateKey.signature`, then `signed`.
        case sign([UInt8])
        /// The enrolment has the certificate.
        case finish(EnrolledCertificate)
        case fail(EnrolmentFailure)
    }

    /// The result that the exchange waits for.
    private enum State: Equatable {
        case idle
        case key
        case certificateKey
        case nonceForAttestation(KeyID)
        case attestation(KeyID, EnrolmentNonce)
        case initialization(KeyID)
        case nonceForBinding(KeyID)
        case assertion(KeyBindingToken)
        case signature(String)
        case binding
        case over
    }

    public private(set) var record: EnrolmentRecord
    /// The service's clock minus this phone's clock in seconds, according to the last answer.
    public private(set) var clockOffset: Int64 = 0

    private let form: ClientDataForm
    private let devices: String?
    private var point: [UInt8]
    private var admissionToken: String?
    private var state = State.idle
    /// Whether the initialization may have arrived before without its answer.
    private var isRepetition = false
    // Each remedy is tried once in an exchange. A second failure has another cause.
    private var hasRenewedKey = false
    private var hasRenewedNonce = false
    /// Whether the service may have bound the certificate key to the hardware key.
    private var mayBeBound: Bool

    /// Creates an exchange.
    ///
    /// - Parameters:
    ///   - record: The progress with this service.
    ///   - point: The point of the certificate key, 65 bytes. It is the bound key to renew its certificate, or a new
    ///     one to rotate.
    ///   - admissionToken: A JWT for this certificate key, if the service requires one.
    ///   - devices: The base URL of the service's listener for enrolled devices, without a slash at its end. A device that
    ///     is bound then sends all requests there, with its certificate. Nil if there is none, or if the certificate
    ///     has expired.
    public init(
        _ record: EnrolmentRecord, point: [UInt8], form: ClientDataForm = .nonceAndTag, admissionToken: String? = nil,
        devices: String? = nil
    ) {
        self.devices = devices
        Self.expectPoint(point)
        self.record = record
        self.point = point
        self.form = form
        self.admissionToken = admissionToken
        mayBeBound =
            switch record.step {
            case .begun, .keyMade: false
            case .attested, .initialized, .bound: true
            }
    }

    public mutating func begin() -> Action {
        if let admissionToken, !KeyBindingToken.isAdmissionToken(admissionToken) {
            return end(.admissionTokenMalformed)
        }
        // Before the first binding, an attestation for a certificate key is valid for that key only.
        if let attested = record.attestedPoint, attested != point, !record.isBound { record.step = .begun }
        switch record.step {
        case .begun: return makeKey()
        case .keyMade(let key): return fetchNonce(.nonceForAttestation(key))
        case .attested(let key, let content):
            isRepetition = true
            state = .initialization(key)
            return .send(request(.initialization, content))
        case .initialized(let key), .bound(let key): return fetchNonce(.nonceForBinding(key))
        }
    }

    // MARK: - Results of the platform

    /// Handles a new hardware key.
    ///
    /// - Parameter tag: On Android: 16 to 64 random bytes, new for each key. Nil on iOS.
    public mutating func keyMade(_ key: KeyID, tag: [UInt8]? = nil) -> Action {
        guard state == .key else { outOfTurn() }
        precondition((16...64).contains(tag?.count ?? 32), "a hardware key tag has 16 to 64 bytes")
        record.step = .keyMade(key)
        record.chosenTag = tag
        return fetchNonce(.nonceForAttestation(key))
    }

    /// Handles a new certificate key.
    ///
    /// - Parameters:
    ///   - point: Its uncompressed point, 65 bytes.
    ///   - admissionToken: A JWT for this key, if the service requires one.
    public mutating func keyProvided(_ point: [UInt8], admissionToken: String? = nil) -> Action {
        guard state == .certificateKey else { outOfTurn() }
        Self.expectPoint(point)
        self.point = point
        self.admissionToken = admissionToken
        mayBeBound = false
        record.step = .begun
        return begin()
    }

    public mutating func attested(_ attestation: [UInt8]) -> Action { attested(.appAttest(attestation)) }

    public mutating func attested(_ attestation: KeyAttestation) -> Action {
        guard case .attestation(let key, let nonce) = state else { outOfTurn() }
        let content = form.initialization(nonce, tag(of: key), attestation: attestation, point: point)
        record.attestedPoint = form == .dsr ? point : nil
        record.step = .attested(key, initialization: content)
        state = .initialization(key)
        return .send(request(.initialization, content))
    }

    /// Handles an assertion.
    ///
    /// - Parameter now: The time by this phone's clock, in seconds since 1970.
    public mutating func asserted(_ assertion: [UInt8], now: Int64) -> Action {
        asserted(.assertion(assertion), now: now)
    }

    public mutating func asserted(_ proof: KeyBindingProof, now: Int64) -> Action {
        guard case .assertion(let token) = state else { outOfTurn() }
        guard let input = token.signingInput(proof, issuedAt: max(0, now + clockOffset)) else {
            return end(.signatureUnreadable)
        }
        state = .signature(input)
        return .sign(Array(input.utf8))
    }

    public mutating func signed(_ signature: [UInt8]) -> Action {
        guard case .signature(let input) = state else { outOfTurn() }
        guard let content = KeyBindingToken.content(input, signature: signature) else {
            return end(.signatureUnreadable)
        }
        state = .binding
        mayBeBound = true
        return .send(request(.keyBinding, content))
    }

    public mutating func attestorFailed(_ fault: AttestorFault) -> Action {
        fault == .keyLost && state != .key ? replaceKey(else: .attestor(fault)) : end(.attestor(fault))
    }

    // MARK: - Answers of the service

    /// Handles an answer.
    ///
    /// - Parameter now: The time by this phone's clock, in seconds since 1970.
    public mutating func answered(_ answer: EnrolmentAnswer, now: Int64) -> Action {
        // The service is authenticated, and checks the times in tokens.
        if let date = answer.date { clockOffset = date - now }
        switch state {
        case .nonceForAttestation(let key):
            guard let nonce = answer.nonce else { return refused(answer, .nonce) }
            state = .attestation(key, nonce)
            return .attest(key, clientDataHash: form.hash(nonce, tag(of: key), point: point))
        case .initialization(let key): return initializationAnswered(answer, key)
        case .nonceForBinding(let key):
            guard let nonce = answer.nonce else { return refused(answer, .nonce) }
            let token = KeyBindingToken(
                service: record.service, nonce: nonce, tag: tag(of: key).text, point: point,
                admissionToken: admissionToken)
            state = .assertion(token)
            return .assert(key, token.clientData)
        case .binding: return bindingAnswered(answer)
        case .idle, .key, .certificateKey, .attestation, .assertion, .signature, .over: outOfTurn()
        }
    }

    private mutating func initializationAnswered(_ answer: EnrolmentAnswer, _ key: KeyID) -> Action {
        if answer.status == 204 {
            record.step = .initialized(key)
            return fetchNonce(.nonceForBinding(key))
        }
        let advice = answer.refusal.advice(for: .initialization)
        guard isRepetition, advice == .newHardwareKey || advice == .updateSystem else {
            return refused(answer, .initialization)
        }
        // The system may have been updated after the attestation.
        if advice == .updateSystem { return replaceKey(else: .refused(answer.refusal, advice: advice)) }
        // The nonce has expired, or the key is registered already. If the first request arrived, the service knows the
        // key, which key binding will show.
        isRepetition = false
        return fetchNonce(.nonceForBinding(key))
    }

    private mutating func bindingAnswered(_ answer: EnrolmentAnswer) -> Action {
        guard let certificate = answer.certificate else { return refused(answer, .keyBinding) }
        guard certificate.isFor(point), let key = record.hardwareKeyID else { return end(.certificateForeign) }
        record.step = .bound(key)
        state = .over
        return .finish(certificate)
    }

    private mutating func refused(_ answer: EnrolmentAnswer, _ endpoint: EnrolmentRequest.Endpoint) -> Action {
        guard answer.status >= 300 else { return end(.answerUnreadable(endpoint)) }
        let refusal = answer.refusal
        let advice = refusal.advice(for: endpoint)
        switch advice {
        case .newNonce:
            guard !hasRenewedNonce, let key = record.hardwareKeyID else {
                return end(.refused(refusal, advice: .giveUp))
            }
            hasRenewedNonce = true
            return fetchNonce(.nonceForBinding(key))
        case .newHardwareKey: return replaceKey(else: .refused(refusal, advice: .giveUp))
        case .update where endpoint == .initialization, .updateSystem:
            // The same attestation would always be refused, even after the update.
            record.step = .begun
            record.attestedPoint = nil
            record.chosenTag = nil
            return end(.refused(refusal, advice: advice))
        case .later, .awaitApproval, .update, .giveUp: return end(.refused(refusal, advice: advice))
        }
    }

    // MARK: - Helpers

    private func request(_ endpoint: EnrolmentRequest.Endpoint, _ content: [UInt8]? = nil) -> EnrolmentRequest {
        EnrolmentRequest(endpoint, of: record.service, content, at: record.isBound ? devices : nil)
    }

    private func tag(of key: KeyID) -> HardwareKeyTag { HardwareKeyTag(key, chosen: record.chosenTag) }

    private static func expectPoint(_ point: [UInt8]) {
        precondition(point.count == 65, "an uncompressed point of P-256 has 65 bytes")
    }

    /// Makes another hardware key, or ends with the failure if that was tried before.
    private mutating func replaceKey(else failure: EnrolmentFailure) -> Action {
        guard !hasRenewedKey else { return end(failure) }
        hasRenewedKey = true
        if mayBeBound {
            state = .certificateKey
            return .provideKey
        }
        // An attested key that the service refuses is useless.
        record.step = .begun
        return makeKey()
    }

    private mutating func makeKey() -> Action {
        record.attestedPoint = nil
        record.chosenTag = nil
        isRepetition = false
        state = .key
        return .makeKey
    }

    private mutating func fetchNonce(_ next: State) -> Action {
        state = next
        return .send(request(.nonce))
    }

    private mutating func end(_ failure: EnrolmentFailure) -> Action {
        state = .over
        return .fail(failure)
    }

    private func outOfTurn() -> Never { preconditionFailure("this is not what the last action asked for") }
}

/// A nonce of the service: base64url, to be returned unchanged.
package struct EnrolmentNonce: Equatable, Sendable {
    package let text: String
    /// The decoded bytes.
    let bytes: [UInt8]

    /// Parses a nonce.
    ///
    /// - Returns: nil for another form, which could need escapes in JSON.
    init?(_ text: String) {
        guard (22...128).contains(text.utf8.count), let bytes = Base64URL.decode(text) else { return nil }
        self.text = text
        self.bytes = bytes
    }
}

/// The two entries of an App Attest assertion that a key binding carries separately.
///
/// The phone's own system made the assertion, and the service verifies it. Therefore this parser accepts definite
/// lengths of RFC 8949 and any order of entries, and refuses the rest.
struct AssertionEntries: Equatable {
    let signature: [UInt8]
    let authenticatorData: [UInt8]

    /// Parses an assertion.
    ///
    /// - Returns: nil if the bytes are not a map of these entries.
    init?(_ assertion: [UInt8]) {
        var reader = Reader(rest: assertion[...])
        guard let head = reader.head(), head.major == 5, head.count <= 8 else { return nil }
        var entries: [String: [UInt8]] = [:]
        for _ in 0..<head.count {
            guard let name = reader.string(3) else { return nil }
            let key = String(decoding: name, as: UTF8.self)
            switch key {
            case "signature", "authenticatorData":
                guard let value = reader.string(2), entries.updateValue(value, forKey: key) == nil else { return nil }
            // iOS 18.5 to 26 add a hash of the code for apps that request it.
            default: guard reader.skip(depth: 0) else { return nil }
            }
        }
        guard reader.rest.isEmpty, let signature = entries["signature"], let data = entries["authenticatorData"] else {
            return nil
        }
        self.signature = signature
        authenticatorData = data
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        /// Reads the major type and the argument of a head.
        mutating func head() -> (major: UInt8, count: Int)? {
            guard let first = rest.popFirst() else { return nil }
            let major = first >> 5
            switch first & 0x1f {
            case let short where short < 24: return (major, Int(short))
            case 24: return number(1).map { (major, $0) }
            case 25: return number(2).map { (major, $0) }
            case 26: return number(4).map { (major, $0) }
            default: return nil
            }
        }

        private mutating func number(_ length: Int) -> Int? {
            guard rest.count >= length else { return nil }
            defer { rest = rest.dropFirst(length) }
            return rest.prefix(length).reduce(0) { $0 << 8 | Int($1) }
        }

        mutating func string(_ major: UInt8) -> [UInt8]? {
            guard let head = head(), head.major == major, head.count <= rest.count else { return nil }
            defer { rest = rest.dropFirst(head.count) }
            return Array(rest.prefix(head.count))
        }

        /// Skips one value.
        ///
        /// - Returns: false if there was no complete value.
        mutating func skip(depth: Int) -> Bool {
            guard depth < 4, let head = head() else { return false }
            switch head.major {
            case 0, 1, 7: return true
            case 2, 3:
                guard head.count <= rest.count else { return false }
                rest = rest.dropFirst(head.count)
                return true
            case 4, 5:
                // Each element takes at least one byte, so a false count ends soon.
                for _ in 0..<(head.major == 5 ? 2 * head.count : head.count) where !skip(depth: depth + 1) {
                    return false
                }
                return true
            default: return false
            }
        }
    }
}
