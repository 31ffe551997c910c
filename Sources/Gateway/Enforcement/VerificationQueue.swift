internal import EventLoop

/// Requests of one worker whose proofs wait to be verified, first come first served.
///
/// A verification takes several times as long as all else that a worker does for a request. So what is ready meanwhile goes
/// before it: answers of services, and requests whose counters have become durable.
final class VerificationQueue {
    private let loop: Loop
    private let verify: (UInt64) -> Bool
    private var tokens: [UInt64] = []
    private var first = 0
    /// Made once: the loop is given it whenever requests begin to wait.
    private lazy var piece: () -> Bool = { [weak self] in self?.verifySome() ?? false }

    /// Verifications between which nothing else is served: each look for other events is a system call.
    private static let together = 2

    /// - Parameter verify: called with the token of each when it is its turn. Returns whether there was anything to verify.
    init(loop: Loop, verify: @escaping (UInt64) -> Bool) {
        self.loop = loop
        self.verify = verify
    }

    func enter(_ token: UInt64) {
        // While any are there, the loop has been given the work already.
        if tokens.isEmpty { loop.work(inPieces: piece) }
        tokens.append(token)
    }

    /// - Returns: whether others wait.
    private func verifySome() -> Bool {
        var verified = 0
        while verified < Self.together, first < tokens.count {
            let token = tokens[first]
            first += 1
            if verify(token) { verified += 1 }
        }
        // Moved up now and then, so that a queue that never empties does not grow.
        if first == tokens.count || first >= Self.movingLimit {
            tokens.removeSubrange(..<first)
            first = 0
        }
        return !tokens.isEmpty
    }

    private static let movingLimit = 256
}
