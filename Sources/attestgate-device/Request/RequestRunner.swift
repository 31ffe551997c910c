internal import CCurl
internal import Cryptography
internal import DeviceSimulator
internal import Foundation
internal import RequestProof
internal import TrustClient
internal import Vocabulary

/// The execution of `ProofExchange`'s actions for one request.
final class RequestRunner {
    /// The request of the command line.
    struct Plan {
        var request: AttestedRequest
        /// The request without the proof and without fields added after signing.
        var outgoing: CurlTransfer.Outgoing
        /// The URL up to its path. A Host field of the caller may name another authority.
        var origin: String
        /// Fields that are sent, but not signed.
        var unsigned: [HeaderLine]
        var alterations: ProofAlterations
        var hasProof: Bool
        var isIdempotent: Bool
        var replays: Bool
    }

    let plan: Plan
    private let phone: Phone
    private let transfer: CurlTransfer
    private let library: LibraryContext
    private let include: Bool
    let trace: (String) -> Void
    var session: ProofSession
    /// Whether the request may be repeated. One that is wrong on purpose is sent once, because a correction would hide
    /// the denial.
    let mayRepeat: Bool

    init(
        _ plan: Plan, _ phone: Phone, isGenuine: Bool, _ transfer: CurlTransfer, _ library: LibraryContext,
        include: Bool, trace: @escaping (String) -> Void
    ) {
        self.plan = plan
        self.phone = phone
        self.transfer = transfer
        self.library = library
        self.include = include
        self.trace = trace
        mayRepeat = isGenuine && plan.alterations.isNone && plan.unsigned.isEmpty
        session = ProofSession(
            keyID: phone.keyID, algorithm: phone.algorithm,
            challenge: phone.device.challenge(for: plan.request.target.authority))
    }

    var now: Int64 { Int64(Date().timeIntervalSince1970) }

    /// Runs the request.
    ///
    /// - Returns: the status of the response, or of the first one with a replay.
    func run() throws -> Int {
        guard plan.hasProof else { return try finish(plan.outgoing, send(plan.outgoing, holds: false)) }
        var exchange = ProofExchange(isIdempotent: plan.isIdempotent)
        var order = try begin(&exchange)
        while true {
            let outgoing = try outgoing(with: order)
            let answered = try send(outgoing, holds: mayRepeat)
            let action = exchange.answered(answered.answer, &session, now: now)
            try keepChallenge()
            guard mayRepeat, case .send(let challenge, let created) = action else {
                return try finish(outgoing, answered)
            }
            order = Order(challenge: challenge, created: created)
            trace("refused as \(answered.answer.denial ?? "unknown"); retrying with a new proof")
        }
    }

    func outgoing(with order: Order) throws -> CurlTransfer.Outgoing {
        var outgoing = plan.outgoing
        outgoing.lines += try proof(order).lines.map { HeaderLine(name: $0.name, value: $0.value) }
        outgoing.lines += plan.unsigned
        return outgoing
    }

    /// Returns only the proof, for another client to send.
    func proofAlone() throws -> ProofFields {
        var exchange = ProofExchange(isIdempotent: false)
        return try proof(begin(&exchange))
    }

    /// The input of a proof.
    struct Order {
        let challenge: ReceivedChallenge
        let created: Int64
    }

    func begin(_ exchange: inout ProofExchange) throws -> Order {
        if plan.alterations.nonce != nil {
            // The command line gives the challenge, and this is only a placeholder.
            let place = try AcceptSignature(components: [], nonce: Array("none".utf8))
            session = ProofSession(
                keyID: phone.keyID, algorithm: phone.algorithm,
                challenge: ReceivedChallenge(place, receivedAt: now))
        }
        if case .send(let challenge, let created) = exchange.begin(session, now: now) {
            return Order(challenge: challenge, created: created)
        }
        trace("fetching a challenge")
        let answered = try send(
            CurlTransfer.Outgoing(
                method: "GET", url: plan.origin + ProofSession.challengePath,
                lines: plan.outgoing.lines.filter { $0.isNamed("host") }),
            holds: true)
        let action = exchange.challengeAnswered(answered.answer, &session, now: now)
        guard case .send(let challenge, let created) = action else {
            throw SimulatorError.noChallenge(status: answered.answer.status, denial: answered.answer.denial)
        }
        try keepChallenge()
        return Order(challenge: challenge, created: created)
    }

    func keepChallenge() throws {
        guard plan.alterations.nonce == nil, let challenge = session.challenge else { return }
        try phone.device.keep(challenge, for: plan.request.target.authority)
    }

    func proof(_ order: Order) throws -> ProofFields {
        let counter = try phone.takeCounter()
        let proof = try AlteredProof(
            plan.request, answering: order.challenge, keyID: phone.keyID, created: order.created,
            counter: phone.stated(counter), plan.alterations, library)
        let assertion = try phone.sign(counter: counter, clientDataHash: proof.clientDataHash)
        trace("signed with counter \(counter)")
        return try proof.fields(assertion: assertion)
    }

    // MARK: - Responses

    /// A response that was not completely shown.
    private struct PartialResponse {
        let head: CurlTransfer.Head
        let answer: GatewayAnswer
        /// Content withheld until it is decided whether to show it. Nil if it was shown as received.
        let held: [UInt8]?
    }

    /// Sends the request.
    ///
    /// - Parameter holds: Whether a 401 is withheld, because a new proof may help.
    private func send(_ outgoing: CurlTransfer.Outgoing, holds: Bool) throws -> PartialResponse {
        var isShown = false
        var beginning: [UInt8] = []
        let include = include
        let head = try transfer.perform(outgoing) { head, content in
            if head.status >= 400, beginning.count <= GatewayAnswer.denialLimit { beginning += content }
            if holds, !isShown {
                // A 401 that is longer than any denial is from a service.
                if head.status == 401, beginning.count <= GatewayAnswer.denialLimit { return true }
                if head.status == 401 {
                    isShown = true
                    return (!include || Terminal.put(head.bytes)) && Terminal.put(beginning)
                }
            }
            if !isShown, include { Terminal.put(head.bytes) }
            isShown = true
            return Terminal.put(Array(content))
        }
        return PartialResponse(head: head, answer: GatewayAnswer(head, beginning), held: isShown ? nil : beginning)
    }

    /// Shows withheld content and sends the same bytes again if requested.
    private func finish(_ outgoing: CurlTransfer.Outgoing, _ answered: PartialResponse) throws -> Int {
        show(answered)
        if session.note(answered.answer, now: now) { try keepChallenge() }
        guard plan.replays else { return answered.answer.status }
        Terminal.say("first: \(summary(answered.answer))")
        let again = try send(outgoing, holds: false)
        show(again)
        Terminal.say("replay: \(summary(again.answer))")
        return answered.answer.status
    }

    private func show(_ answered: PartialResponse) {
        guard let held = answered.held else { return }
        if include { Terminal.put(answered.head.bytes) }
        Terminal.put(held)
    }

    func summary(_ answer: GatewayAnswer) -> String {
        "\(answer.status)" + (answer.denial.map { " \($0)" } ?? "")
    }
}

extension GatewayAnswer {
    /// Parses a response.
    ///
    /// - Parameter beginning: The beginning of the content, at most the length of a denial.
    init(_ head: CurlTransfer.Head, _ beginning: [UInt8]) {
        let (challenge, date) = (head.values("accept-signature"), head.values("date").first)
        if let denial = head.values("attest-denial").first {
            // A gRPC call has no content.
            self.init(status: head.status, denial: denial, acceptSignature: challenge, date: date)
        } else {
            self.init(status: head.status, acceptSignature: challenge, date: date, content: beginning)
        }
    }
}

/// Many simultaneous requests, each with its own proof.
extension RequestRunner {
    /// One of the requests.
    private struct Attempt {
        var exchange: ProofExchange
        /// The input of its next proof. Nil after its final answer.
        var order: Order?
        var outgoing: CurlTransfer.Outgoing?
        var answer: Result<GatewayAnswer, TransferError>?
    }

    /// Sends one request per transfer of the group and prints a line for each in order: number, status and denial.
    /// Proofs are signed in that order. Requests that need a new proof are repeated together.
    ///
    /// - Returns: the highest status, or that of the first answers with a replay.
    /// - Throws: the first failure of a transfer, after the lines are printed.
    func run(at group: CurlGroup) throws -> Int {
        var attempts = try begin(group.transfers.count)
        while true {
            let chosen = attempts.indices.filter { attempts[$0].answer == nil }
            guard !chosen.isEmpty else { break }
            for index in chosen {
                attempts[index].outgoing = try attempts[index].order.map(outgoing(with:)) ?? plan.outgoing
            }
            let answers = try send(chosen.map { ($0, attempts[$0].outgoing ?? plan.outgoing) }, group)
            for (index, answer) in zip(chosen, answers) { take(answer, &attempts[index]) }
            try keepChallenge()
        }
        printOutcomes(attempts.map(\.answer), as: plan.replays ? "first" : nil)
        if plan.replays {
            let again = try send(attempts.enumerated().map { ($0, $1.outgoing ?? plan.outgoing) }, group)
            printOutcomes(again, as: "replay")
        }
        return try attempts.reduce(0) { highest, attempt in max(highest, try attempt.answer?.get().status ?? 0) }
    }

    private func begin(_ count: Int) throws -> [Attempt] {
        var exchange = ProofExchange(isIdempotent: plan.isIdempotent)
        let order = plan.hasProof ? try begin(&exchange) : nil
        return (0..<count).map { _ in Attempt(exchange: exchange, order: order) }
    }

    private func take(_ answer: Result<GatewayAnswer, TransferError>, _ attempt: inout Attempt) {
        attempt.answer = answer
        guard case .success(let response) = answer else { return }
        guard attempt.order != nil else { return _ = session.note(response, now: now) }
        let action = attempt.exchange.answered(response, &session, now: now)
        guard mayRepeat, case .send(let challenge, let created) = action else { return }
        trace("refused as \(response.denial ?? "unknown"); retrying with a new proof")
        attempt.order = Order(challenge: challenge, created: created)
        attempt.answer = nil
    }

    /// Sends requests.
    ///
    /// - Parameter requests: The requests with the indices of their transfers.
    private func send(
        _ requests: [(place: Int, outgoing: CurlTransfer.Outgoing)], _ group: CurlGroup
    ) throws -> [Result<GatewayAnswer, TransferError>] {
        var beginnings = [[UInt8]](repeating: [], count: group.transfers.count)
        for (place, outgoing) in requests {
            try group.transfers[place].prepare(outgoing) { head, content in
                if head.status >= 400, beginnings[place].count <= GatewayAnswer.denialLimit {
                    beginnings[place] += content
                }
                return true
            }
        }
        let heads = group.perform(requests.map { group.transfers[$0.place] })
        return zip(requests, heads).map { request, head in
            head.map { GatewayAnswer($0, beginnings[request.place]) }
        }
    }

    private func printOutcomes(_ answers: [Result<GatewayAnswer, TransferError>?], as name: String?) {
        for (index, answer) in answers.enumerated() {
            let text =
                switch answer {
                case .success(let response): summary(response)
                case .failure(let error): "no answer: \(error)"
                case nil: "not sent"
                }
            Terminal.put(line: (name.map { "\($0) " } ?? "") + "\(index + 1): \(text)")
        }
    }
}

/// The device of one run: the key id that it claims, and its signer.
struct Phone {
    let device: DeviceDirectory
    var keyID: KeyID { claimed.keyID }
    var algorithm: ProofAlgorithm { claimed.algorithm }

    private let claimed: ProofSigner
    private let signer: ProofSigner
    private let fixedCounter: UInt32?

    init(_ device: DeviceDirectory, claims: ProofSigner, signsWith signer: ProofSigner, counter: UInt32?) {
        self.device = device
        claimed = claims
        self.signer = signer
        fixedCounter = counter
    }

    /// Returns the counter of the next proof, which is used up.
    func takeCounter() throws -> UInt32 { try fixedCounter ?? device.counter.take() }

    /// Returns the counter that the request must state in a field. Nil for App Attest.
    func stated(_ counter: UInt32) -> UInt32? { claimed.stated(counter) }

    /// Returns the assertion or signature.
    func sign(counter: UInt32, clientDataHash: [UInt8]) throws -> [UInt8] {
        try signer.sign(counter: counter, clientDataHash: clientDataHash)
    }
}
