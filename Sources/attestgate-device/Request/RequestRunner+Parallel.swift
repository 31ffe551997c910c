internal import TrustClient

/// Many requests at once, each with a proof of its own.
extension RequestRunner {
    /// One of them.
    private struct Attempt {
        var exchange: ProofExchange
        /// What its next proof is to be made of; nil if it is answered for good.
        var order: Order?
        var outgoing: CurlTransfer.Outgoing?
        var answer: Result<GatewayAnswer, TransferError>?
    }

    /// Sends as many requests as the group has transfers, and prints a line for each in their order: its number, the
    /// status, and the denial. Proofs are signed in that order; requests that need a new proof are repeated together.
    ///
    /// - Returns: the highest status, of the first answers with a replay.
    /// - Throws: the first failure of a transfer, if there was one; the lines are printed nevertheless.
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
        tell(attempts.map(\.answer), as: plan.replays ? "first" : nil)
        if plan.replays {
            let again = try send(attempts.enumerated().map { ($0, $1.outgoing ?? plan.outgoing) }, group)
            tell(again, as: "replay")
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

    /// - Parameter requests: with the places of the transfers that carry them.
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

    private func tell(_ answers: [Result<GatewayAnswer, TransferError>?], as name: String?) {
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
