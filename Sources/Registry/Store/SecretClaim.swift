internal import Synchronization

/// The secret that a process uses for the pseudonyms in a registry.
///
/// Services identify devices by pseudonyms, and the registry identifies people by them, so all users of a registry must
/// share one secret. The registry keeps a check value that reveals nothing of the secret, and each process presents its
/// own. Used by the thread that opens the store.
public final class SecretClaim: Sendable {
    /// The state of a store when it is opened.
    package struct Registered {
        /// The stored check value. Nil if no secret was ever used.
        package let check: Fingerprint?
        /// Whether there are devices or barred people, and so pseudonyms in use.
        package let isPopulated: Bool
        /// Whether other processes with their own file may use the store.
        package let isShared: Bool
        /// The name of the store for messages.
        package let name: String

        package init(check: Fingerprint?, isPopulated: Bool, isShared: Bool, name: String) {
            self.check = check
            self.isPopulated = isPopulated
            self.isShared = isShared
            self.name = name
        }
    }

    private struct State {
        /// The check value of the process's secret. Nil if there is no secret yet.
        var check: Fingerprint?
        /// Whether the secret was confirmed before. The operator's acceptance of a new secret is valid only for the
        /// start.
        var isConfirmed = false
    }

    private let path: String
    private let acceptsNew: Bool
    private let state: Mutex<State>
    private let make: @Sendable () throws(StoreOpenError) -> Fingerprint
    private let notice: @Sendable (SecretNotice) -> Void

    /// Creates a claim.
    ///
    /// - Parameters:
    ///   - path: The path of the secret's file, for messages.
    ///   - check: The check value of the secret. Nil if the file is missing.
    ///   - acceptsNew: Whether existing pseudonyms may be lost.
    ///   - make: Creates the missing file.
    ///   - notice: Receives notices for the operator.
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

    /// Compares the secret with the store, and creates a missing secret. It is called again if the transaction is
    /// retried.
    ///
    /// - Returns: The check value that the store must keep.
    package func check(for store: Registered) throws(StoreOpenError) -> Fingerprint {
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

    /// Records that the store has the check value now.
    ///
    /// - Parameter store: The state of the store before.
    package func confirm(_ check: Fingerprint, in store: Registered) {
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

    /// Returns whether the store may change its secret. That is harmless for a store that is not shared and has no
    /// pseudonyms.
    private func mayTake(_ store: Registered, _ wasConfirmed: Bool) -> Bool {
        guard store.check != nil else { return true }
        return !wasConfirmed && (acceptsNew || !store.isPopulated && !store.isShared)
    }

    private func mayMake(_ store: Registered) -> Bool {
        acceptsNew || !store.isPopulated && !(store.isShared && store.check != nil)
    }
}

/// A notice to the operator about a registry's secret.
public enum SecretNotice: Equatable, Sendable {
    /// The secret was missing and was created. `isLoss` says whether earlier pseudonyms are lost.
    case made(path: String, isLoss: Bool)
    /// The secret differs from the earlier one. `isLoss` says whether earlier pseudonyms are lost.
    case replaced(path: String, isLoss: Bool)
}

extension SecretNotice: CustomStringConvertible {
    /// The text for logs.
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

    /// Whether pseudonyms were lost.
    public var isLoss: Bool {
        switch self {
        case .made(_, let isLoss), .replaced(_, let isLoss): isLoss
        }
    }
}
