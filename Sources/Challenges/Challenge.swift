internal import Encoding

/// The text of a challenge: 78 characters of base64url. It is sent in `Accept-Signature` and comes back in `nonce`.
///
/// It encodes 58 bytes:
///
/// | bytes | content |
/// |---|---|
/// | 1 | version, 1 |
/// | 1 | generation of the secret |
/// | 8 | time of issue, in seconds since 1970, big-endian |
/// | 16 | random |
/// | 32 | HMAC-SHA-256 of everything before |
public struct Challenge: Sendable {
    /// Length of the text, in characters.
    public static let length = 78

    static let version: UInt8 = 1
    static let timeOffset = 2
    static let randomOffset = 10
    static let randomLength = 16
    static let codeOffset = 26

    /// The 58 bytes that the text encodes.
    typealias Content = InlineArray<58, UInt8>

    private var text = InlineArray<78, UInt8>(repeating: 0)

    init(_ content: Content) {
        var room = text.mutableSpan
        Base64URL.encode(content.span, into: &room)
    }

    /// A copy of the characters.
    public var bytes: [UInt8] { (0..<Self.length).map { text[$0] } }

    /// The characters, in ASCII.
    public var span: Span<UInt8> {
        @_lifetime(borrow self)
        get { text.span }
    }
}

/// The result of verifying a text that was received as a challenge.
public enum ChallengeVerdict: Equatable, Sendable {
    /// A challenge of this scope that may be used.
    ///
    /// - `issuedAt`: in seconds since 1970.
    /// - `pastHalfLife`: true if the response should bring the client a new challenge.
    case fresh(issuedAt: UInt64, pastHalfLife: Bool)
    /// A challenge of this scope whose life has ended.
    case expired(issuedAt: UInt64)
    /// A challenge of this scope that was issued in the future. Either the clocks of gateways that share a secret
    /// disagree, or this clock was set back. An operator should be informed.
    case premature(issuedAt: UInt64)
    /// A challenge of the right form that has another scope or secret, or was altered.
    case foreign
    /// A text that is no challenge of this version.
    case malformed
}

/// The purpose of a challenge. Each purpose has its own keys, so a challenge of one is invalid for the other.
public enum ChallengePurpose: Sendable, CaseIterable {
    /// The `nonce` of a request proof.
    case request
    /// The nonce of the enrolment endpoints.
    case enrolment
    /// The challenge of a client attestation's proof of possession.
    case clientAttestation
    /// A code for a device token.
    case deviceToken

    /// The label that separates the derived keys. No label is a prefix of another.
    var label: String {
        switch self {
        case .request: "attestgate challenge request"
        case .enrolment: "attestgate challenge enrolment"
        case .clientAttestation: "attestgate challenge client attestation"
        case .deviceToken: "attestgate challenge device token"
        }
    }
}

/// The scope in which challenges are valid: one purpose, one store and one epoch of it.
///
/// A store that may have forgotten counters draws a new epoch. That is a restored or imported store, or one behind its
/// commit mark. The new epoch makes every earlier challenge invalid, and with it every earlier proof.
public struct ChallengeScope: Equatable, Sendable {
    /// Length limit of store id and epoch, in bytes.
    public static let longestIdentifier = 255

    public let purpose: ChallengePurpose
    private let store: [UInt8]
    private let epoch: [UInt8]

    /// Creates a scope.
    ///
    /// - Parameters:
    ///   - store: The store's random id, 1 to 255 bytes.
    ///   - epoch: The store's random epoch, 1 to 255 bytes.
    /// - Returns: nil for other lengths, because an empty identifier would let stores share challenges.
    public init?(purpose: ChallengePurpose, store: [UInt8], epoch: [UInt8]) {
        guard (1...Self.longestIdentifier).contains(store.count), (1...Self.longestIdentifier).contains(epoch.count)
        else { return nil }
        self.purpose = purpose
        self.store = store
        self.epoch = epoch
    }

    /// Input of the key derivation: purpose, store id and epoch. Each identifier is preceded by its length. Otherwise a
    /// byte moved from one to the other would give the same key.
    var info: [UInt8] {
        Array(purpose.label.utf8) + [UInt8(store.count)] + store + [UInt8(epoch.count)] + epoch
    }
}

/// A secret from which challenge keys are derived, with the number of its generation.
///
/// After a rotation the new generation signs, and the previous one still verifies until its last challenge has expired.
/// All gateways of one store have the same secrets.
public struct ChallengeSecret: Sendable {
    /// Minimum length of a secret, in bytes: the output length of the hash (RFC 2104 section 3).
    public static let shortest = 32

    /// Number sent in every challenge that selects the key for verification. It must differ between successive secrets.
    public let generation: UInt8
    package let bytes: [UInt8]

    /// Creates a secret.
    ///
    /// - Parameter bytes: Random bytes.
    /// - Returns: nil for fewer bytes than `shortest`.
    public init?(generation: UInt8, bytes: [UInt8]) {
        guard bytes.count >= Self.shortest else { return nil }
        self.generation = generation
        self.bytes = bytes
    }
}
