public import Vocabulary

/// Which clients a listener admits, of those whose certificates are good in themselves. What it says of an identity may change
/// while a session or a connection with it lives: each is judged by the latest.
public struct ClientAdmission: Sendable {
    /// Whether clients may have certificates that nobody but themselves has signed.
    let selfSigned: Bool
    /// Nil if revocation lists are not looked at.
    let revocation: RevocationCheck?
    /// The keys clients may have; nil for any.
    let pins: Set<KeyID>?
    /// What is known elsewhere against a client with this key; nil if nobody knows anything.
    private(set) var bar: (@Sendable (KeyID) -> KeyBarReason?)?

    public init(selfSigned: Bool = false, revocation: RevocationCheck? = nil, pins: Set<KeyID>? = nil) {
        self.selfSigned = selfSigned
        self.revocation = revocation
        self.pins = pins
    }

    /// Why a key is barred, whatever its certificates say.
    public enum KeyBarReason: Sendable {
        case deviceRevoked
        case bindingEnded
    }

    /// The same, with a question that is put in every handshake: to whom sessions and chains are offered too.
    ///
    /// - Parameter bar: called on any thread; answers at once, from memory.
    public func asking(_ bar: @escaping @Sendable (KeyID) -> KeyBarReason?) -> ClientAdmission {
        var asking = self
        asking.bar = bar
        return asking
    }

    public struct KeyRejection: Sendable {
        public let kind: ClientCertificateFault.Kind
        /// In words.
        public let reason: String
    }

    /// What speaks against a client whose certificate has been verified, now or for an earlier connection.
    func objection(to identity: ClientIdentity, at now: Int64) -> KeyRejection? {
        guard identity.notAfter > now else { return KeyRejection(kind: .outsideValidity, reason: "it has expired") }
        guard identity.notBefore <= now else {
            return KeyRejection(kind: .outsideValidity, reason: "it is not valid yet")
        }
        guard selfSigned || identity.kind == .issued else {
            return KeyRejection(kind: .unknownAuthority, reason: "it is self-signed")
        }
        if let objection = objection(toKeeping: identity) ?? barring(identity) { return objection }
        guard identity.kind == .issued else { return nil }
        return revocation?.reasonOfStaleness(identity.chain, at: now).map { KeyRejection(kind: .listStale, reason: $0) }
    }

    private func barring(_ identity: ClientIdentity) -> KeyRejection? {
        // Open connections are not checked here: the code that bars a key ends those.
        switch identity.keyID.flatMap({ bar?($0) }) {
        case .deviceRevoked: KeyRejection(kind: .deviceRevoked, reason: "its device has been revoked")
        case .bindingEnded: KeyRejection(kind: .bindingEnded, reason: "the binding of its key has ended")
        case nil: nil
        }
    }

    /// Why an open connection of that client is to end: it is revoked, or its key is pinned no more. That a list has become
    /// stale ends no connection: it says nothing of this client.
    public func objection(toKeeping identity: ClientIdentity) -> KeyRejection? {
        if let pins, !(identity.keyID.map(pins.contains) ?? false) {
            return KeyRejection(kind: .notPinned, reason: "its key is not pinned")
        }
        guard identity.kind == .issued else { return nil }
        return revocation?.reasonOfRevocation(identity.chain).map { KeyRejection(kind: .revoked, reason: $0) }
    }
}
