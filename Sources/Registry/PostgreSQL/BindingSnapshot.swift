internal import Vocabulary

/// What is looked at before a key is bound. One snapshot.
struct BindingSnapshot {
    let store: DatabaseResult
    let details: DeviceDetails?
    /// Locked until the transaction ends.
    let counter: DatabaseResult
    private let isTaken: Bool
    private let isIssued: Bool
    private let nonce: DatabaseResult
    /// Of the admission token, and of its subject, where one was shown.
    private let token: (used: DatabaseResult, revoked: DatabaseResult)?

    static func questions(_ request: BindingRequest) -> [DatabaseStatement] {
        var questions =
            RegistryDatabase.details(of: .hardwareKey(request.hardwareKey))
            + RegistryDatabase.looks(atTaken: request.key) + [
                RegistryDatabase.useLook,
                DatabaseStatement(
                    """
                    SELECT highest, bits FROM counter
                    WHERE device = (SELECT id FROM device WHERE hardware_key = $1) FOR UPDATE
                    """, [.key(request.hardwareKey)]),
                RegistryDatabase.look(atIssued: request.serial),
                RegistryDatabase.look(at: request.nonce, in: .nonces),
            ]
        if case .token(let token, let subject) = request.admission {
            questions += [
                RegistryDatabase.look(at: token, in: .tokens), RegistryDatabase.look(atRevoked: subject),
            ]
        }
        return questions
    }

    /// - Parameter answers: of `questions`.
    init(_ answers: [DatabaseResult]) throws {
        let others = RegistryDatabase.detailsCount
        details = try RegistryDatabase.details(answers[..<others])
        isTaken = answers[others].rows + answers[others + 1].rows > 0
        store = answers[others + 2]
        counter = answers[others + 3]
        isIssued = answers[others + 4].rows > 0
        nonce = answers[others + 5]
        token = answers.count > others + 6 ? (answers[others + 6], answers[others + 7]) : nil
    }

    func refusal(of request: BindingRequest, _ details: DeviceDetails, _ time: Int64) throws -> KeyBindingRefusal? {
        switch try RegistryDatabase.standing(of: request.nonce, in: .nonces, store, nonce, time) {
        case .expired: return .nonceExpired
        case .used: return .nonceUsed
        case .unused: break
        }
        if let refusal = request.refusal(by: details, isBound: isTaken, isIssued: isIssued) { return refusal }
        let isPending = details.device.state == .pending
        switch request.admission {
        case .open: return nil
        case .approval: return isPending && details.device.approvedAt == nil ? .awaitingApproval : nil
        case .earlier: return isPending ? .admissionRequired : nil
        case .token(let shown, let subject):
            // Asked for whenever one is shown.
            guard let token else { return .admissionRequired }
            switch try RegistryDatabase.standing(of: shown, in: .tokens, store, token.used, time) {
            case .expired: return .tokenExpired
            case .used: return .tokenUsed
            case .unused: break
            }
            if token.revoked.rows > 0 { return .subjectRevoked }
            if let known = details.device.subject, known != subject { return .subjectMismatch }
            return nil
        }
    }
}
