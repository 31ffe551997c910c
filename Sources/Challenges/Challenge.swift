/// The text of a challenge: 78 characters of base64url, as it travels in `Accept-Signature` and comes back in `nonce`.
///
/// It stands for 58 bytes:
///
/// | bytes | what |
/// |---|---|
/// | 1 | version, 1 |
/// | 1 | generation of the secret |
/// | 8 | time of issue, in seconds since 1970, big-endian |
/// | 16 | random |
/// | 32 | HMAC-SHA-256 of all before |
public struct Challenge: Sendable {
    /// Length of the text, in characters.
    public static let length = 78

    static let version: UInt8 = 1
    static let timeOffset = 2
    static let randomOffset = 10
    static let randomLength = 16
    static let codeOffset = 26

    /// The 58 bytes a challenge stands for.
    typealias Content = InlineArray<58, UInt8>

    private var text = InlineArray<78, UInt8>(repeating: 0)

    init(_ content: Content) {
        var room = text.mutableSpan
        Base64URLText.encode(content.span, into: &room)
    }

    /// The characters, copied.
    public var bytes: [UInt8] { (0..<Self.length).map { text[$0] } }

    /// The characters, ASCII.
    public var span: Span<UInt8> {
        @_lifetime(borrow self)
        get { text.span }
    }
}

/// What a text is that came as a challenge.
public enum ChallengeVerdict: Equatable, Sendable {
    /// Ours, and of use.
    ///
    /// - `issuedAt`: in seconds since 1970.
    /// - `pastHalfLife`: the answer should bring the client a new one, before this one ends.
    case fresh(issuedAt: UInt64, pastHalfLife: Bool)
    /// Ours, but too old.
    case expired(issuedAt: UInt64)
    /// Ours, but of a time that is still to come: the clocks of gateways that share a secret disagree, or this one was set
    /// back. An operator should know.
    case premature(issuedAt: UInt64)
    /// Of the right form, but not made by this store in this epoch for this purpose, or changed on its way.
    case foreign
    /// No challenge of this version.
    case malformed
}

/// What a challenge is for. Each purpose has keys of its own, so that none of its challenges passes for another's.
public enum ChallengePurpose: Sendable, CaseIterable {
    /// The `nonce` of a request proof.
    case request
    /// The nonce of the enrolment endpoints.
    case enrolment

    /// The label that separates the derived keys. No label is a prefix of another.
    var label: String {
        switch self {
        case .request: "attestgate challenge request"
        case .enrolment: "attestgate challenge enrolment"
        }
    }
}

/// Where and for what challenges are valid: one purpose, in one store, in one epoch of it.
///
/// Counters and challenges live and die together: when a store may have forgotten counters (restored, imported, behind
/// its commit mark), it draws a new epoch, and every proof made before falls with its challenge.
public struct ChallengeScope: Equatable, Sendable {
    /// Longest store id and longest epoch, in bytes.
    public static let longestIdentifier = 255

    public let purpose: ChallengePurpose
    private let store: [UInt8]
    private let epoch: [UInt8]

    /// - Parameters:
    ///   - store: the store's random id, 1 to 255 bytes.
    ///   - epoch: the store's random epoch, 1 to 255 bytes.
    ///
    /// Nil comes of other lengths: an empty identifier would let stores share challenges.
    public init?(purpose: ChallengePurpose, store: [UInt8], epoch: [UInt8]) {
        guard (1...Self.longestIdentifier).contains(store.count), (1...Self.longestIdentifier).contains(epoch.count)
        else { return nil }
        self.purpose = purpose
        self.store = store
        self.epoch = epoch
    }

    /// Purpose, store id and epoch for the key derivation. Lengths go before the two that vary: without them, a byte moved
    /// from one to the other would give the same key.
    var info: [UInt8] {
        Array(purpose.label.utf8) + [UInt8(store.count)] + store + [UInt8(epoch.count)] + epoch
    }
}

/// A secret that challenge keys are derived from, with the number of its generation.
///
/// Secrets are changed without refusing what is on its way: the new generation signs, and the one before still verifies
/// until its last challenge has expired. All gateways of one store have the same secrets.
public struct ChallengeSecret: Sendable {
    /// Shortest secret, in bytes: as many as the hash gives (RFC 2104 section 3).
    public static let shortest = 32

    /// Travels in every challenge and says whose key to check it with. Two neighbouring generations must differ.
    public let generation: UInt8
    let bytes: [UInt8]

    /// - Parameter bytes: random; nil comes of fewer than `shortest`.
    public init?(generation: UInt8, bytes: [UInt8]) {
        guard bytes.count >= Self.shortest else { return nil }
        self.generation = generation
        self.bytes = bytes
    }
}
