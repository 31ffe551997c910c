internal import Cryptography
internal import DeviceSimulator
internal import TrustClient

/// One simulated phone under load: makes its requests with proofs, and keeps its challenge.
///
/// As little as possible is done for each request: the signature base stays the same for as long as challenge and
/// `created` do, so a proof costs one signature, and one made ahead costs a copy. The base of an Android phone has the
/// counter, and is made for each proof.
final class AttestedDevice {
    private let signer: ProofSigner
    private let counters: CounterBlocks
    private let request: AttestedRequest
    private var session: ProofSession
    private var draft: Draft?
    private var stock: Stock?
    /// What is left of this device's block.
    private var counter: ClosedRange<UInt32>?

    /// What proofs have in common.
    private struct Draft {
        let challenge: ReceivedChallenge
        /// Nil on an Android phone.
        let proof: ProofDraft?
        let madeAt: Int64
    }

    /// Proofs made ahead, to be used in order.
    private struct Stock {
        let proofs: [ProofFields]
        var used = 0
    }

    /// Seconds for which proofs have one `created`: far below any gateway's `max_age`.
    private static let draftLife: Int64 = 30

    init(
        _ member: DeviceFleet.Member, _ counters: CounterBlocks, _ request: AttestedRequest, _ library: LibraryContext
    ) throws {
        signer = try ProofSigner(member.hardwareKey, of: member.appID, library)
        self.counters = counters
        counter = counters.first
        self.request = request
        session = ProofSession(keyID: signer.keyID, algorithm: signer.algorithm)
    }

    var hasChallenge: Bool { session.challenge != nil }

    /// Takes the challenge of a response.
    ///
    /// - Parameter now: in seconds since 1970; so below.
    func note(_ answer: GatewayAnswer, now: Int64) {
        guard session.note(answer, now: now) else { return }
        draft = nil
        // A refusal means that what was made ahead would be refused too.
        if answer.status == 401 { stock = nil }
    }

    /// Makes proofs ahead, all of this moment.
    func prepare(_ count: Int, now: Int64) throws {
        guard let draft = try currentDraft(now) else { return }
        stock = Stock(proofs: try (0..<count).map { _ in try proof(draft) })
    }

    /// The proof of the next request. Without a challenge it goes without one, to be refused with one.
    func next(now: Int64) throws -> (proof: ProofFields?, origin: ProofOrigin) {
        if let stock, stock.used < stock.proofs.count {
            self.stock?.used += 1
            return (stock.proofs[stock.used], .ahead)
        }
        guard let draft = try currentDraft(now) else { return (nil, .missing) }
        return (try proof(draft), .live)
    }

    private func currentDraft(_ now: Int64) throws -> Draft? {
        if let draft, now - draft.madeAt < Self.draftLife { return draft }
        guard let challenge = session.challenge else { return nil }
        let isShared = signer.algorithm == .appleAttest
        let made = Draft(
            challenge: challenge,
            proof: isShared
                ? try ProofDraft(request, answering: challenge, keyID: signer.keyID, created: now) : nil,
            madeAt: now)
        draft = made
        return made
    }

    private func proof(_ draft: Draft) throws -> ProofFields {
        let counter = try nextCounter()
        let proof =
            try draft.proof
            ?? ProofDraft(
                request, answering: draft.challenge, keyID: signer.keyID, created: draft.madeAt,
                counter: signer.stated(counter))
        let signature = try signer.sign(counter: counter, clientDataHash: proof.clientDataHash)
        return try proof.fields(assertion: signature)
    }

    private func nextCounter() throws -> UInt32 {
        let block = try counter ?? counters.next()
        counter = block.count > 1 ? block.lowerBound + 1...block.upperBound : nil
        return block.lowerBound
    }
}
