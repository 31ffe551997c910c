internal import Synchronization

/// The secret that a process uses a registry with. Services know devices, and the registry people, by names made of it, so a registry is
/// of one secret: it keeps a check value, from which nothing of the secret follows, and each process shows its own.
///
/// Asked by whichever thread opens the store.
public final class SecretClaim: Sendable {
    /// What a store says of itself when it is opened.
    struct Registered {
        /// Nil if no secret was ever shown.
        let check: Fingerprint?
        /// Whether there are devices, or barred people: somebody has a name.
        let isPopulated: Bool
        /// Whether others may use the store, each with a file of its own.
        let isShared: Bool
        /// For messages.
        let name: String
    }

    private struct State {
        /// Of the process's secret; nil if there is none yet.
        var check: Fingerprint?
        /// Whether it was ever shown: what an operator has accepted was for the start alone.
        var isConfirmed = false
    }

    private let path: String
    private let acceptsNew: Bool
    private let state: Mutex<State>
    private let make: @Sendable () throws(StoreOpenError) -> Fingerprint
    private let notice: @Sendable (SecretNotice) -> Void

    /// - Parameters:
    ///   - path: of the secret's file, for messages.
    ///   - check: of the secret; nil if there is no file.
    ///   - acceptsNew: whether existing names may be lost.
    ///   - make: makes the file where there is none.
    ///   - notice: called for what an operator should know.
    public init(
        path: String, check: Fingerprint?, acceptsNew: Bool,
        make: @escaping @Sendable () throws(StoreOpenError) -> Fingerprint,
        notice: @escaping @Sendable (SecretNotice) -> Void
    ) {
        self.path = path
        self.acceptsNew = acceptsNew
        self.make = make
        self.notice = notice
        state = Mutex(State(check: check))
    }

    /// Compares the two, and makes a secret where there is none. Asked again if what follows is to be repeated.
    ///
    /// - Returns: the check value that the store is to have.
    func check(for store: Registered) throws(StoreOpenError) -> Fingerprint {
        let state = state.withLock { $0 }
        if let own = state.check {
            guard own == store.check || mayTake(store, state.isConfirmed) else {
                throw .otherSecret(path: store.name, secret: path)
            }
            return own
        }
        guard mayMake(store) else { throw .secretMissing(path: store.name, secret: path) }
        return try make()
    }

    /// The store has that check value now. - Parameter store: as it was before.
    func confirm(_ check: Fingerprint, in store: Registered) {
        let isMade = state.withLock { state in
            defer { state = State(check: check, isConfirmed: true) }
            return state.check == nil
        }
        if isMade {
            notice(.made(path: path, isLoss: store.isPopulated))
        } else if let known = store.check, known != check {
            notice(.replaced(path: path, isLoss: store.isPopulated))
        }
    }

    /// A store that nobody shares, and where nobody has a name, may change its secret: nothing is lost.
    private func mayTake(_ store: Registered, _ wasConfirmed: Bool) -> Bool {
        guard store.check != nil else { return true }
        return !wasConfirmed && (acceptsNew || !store.isPopulated && !store.isShared)
    }

    private func mayMake(_ store: Registered) -> Bool {
        acceptsNew || !store.isPopulated && !(store.isShared && store.check != nil)
    }
}

/// What an operator should know of a registry's secret.
public enum SecretNotice: Equatable, Sendable {
    /// There was none. - isLoss: whether anybody had a name by an earlier one.
    case made(path: String, isLoss: Bool)
    /// It is another one than before.
    case replaced(path: String, isLoss: Bool)
}

extension SecretNotice: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .made(let path, isLoss: false): "created a new secret, \(path): no service knows a device by an old name"
        case .made(let path, isLoss: true): "created a new secret, \(path), as accepted: \(Self.loss)"
        case .replaced(let path, isLoss: false):
            "uses another secret than before, \(path): the old one had named no device"
        case .replaced(let path, isLoss: true):
            "uses another secret than before, \(path), as accepted: \(Self.loss)"
        }
    }

    private static let loss =
        "services see every device as a NEW one, and barred people are no longer known"

    /// Whether names were lost.
    public var isLoss: Bool {
        switch self {
        case .made(_, let isLoss), .replaced(_, let isLoss): isLoss
        }
    }
}
