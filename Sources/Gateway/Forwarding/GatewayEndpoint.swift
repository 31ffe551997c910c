internal import Bytes
internal import HTTP

/// An endpoint of the gateway itself. Its path belongs to the gateway: no route can match it.
enum GatewayEndpoint {
    /// A client with a certificate gets its first challenge here. On every host.
    case challenge
    /// A client without one gets the challenge for its client attestation here. On the resource's host.
    case attestationChallenge
    /// The metadata of the protected resource (RFC 9728). On the resource's host; its path has the resource's in it.
    case resourceMetadata

    static let attestationChallengePath = "/.well-known/attestgate/attestation-challenge"
    private static let challengePath = Array("/.well-known/attestgate/challenge".utf8)
    private static let challengeBytes = Array(attestationChallengePath.utf8)

    /// The value of the Allow field.
    var methods: [UInt8] { Array((self == .attestationChallenge ? "POST" : "GET, HEAD").utf8) }

    func admits(_ method: Method?) -> Bool {
        self == .attestationChallenge ? method == .post : method == .get || method == .head
    }

    /// Returns the endpoint that a request is for.
    ///
    /// - Parameters:
    ///   - hasDevices: Whether there is a registry.
    ///   - attestations: Nil if no route requires client attestations.
    init?(of head: RequestHead, _ bytes: Span<UInt8>, hasDevices: Bool, _ attestations: ClientAttestations?) {
        if hasDevices, head.path.count == Self.challengePath.count,
            head.path.of(bytes).equals(Self.challengePath.span)
        {
            self = .challenge
            return
        }
        guard let attestations, attestations.isHost(head.host.of(bytes)) else { return nil }
        let (challenges, metadata) = (Self.challengeBytes, attestations.metadataPath)
        if head.path.of(bytes).equals(challenges.span) {
            self = .attestationChallenge
        } else if head.path.of(bytes).equals(metadata.span) {
            self = .resourceMetadata
        } else {
            return nil
        }
    }
}
