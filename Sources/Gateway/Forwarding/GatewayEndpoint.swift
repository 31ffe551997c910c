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

    /// Returns the endpoint that a request is for. A function, because an initializer would copy the head.
    ///
    /// - Parameters:
    ///   - hasDevices: Whether there is a registry.
    ///   - attestations: Nil if no route requires client attestations.
    static func meant(
        by head: RequestHead, _ bytes: Span<UInt8>, hasDevices: Bool, _ attestations: ClientAttestations?
    ) -> GatewayEndpoint? {
        if hasDevices, head.path.count == challengePath.count, head.path.of(bytes).equals(challengePath.span) {
            return .challenge
        }
        guard let attestations, attestations.isHost(head.host.of(bytes)) else { return nil }
        let (challenges, metadata) = (challengeBytes, attestations.metadataPath)
        if head.path.of(bytes).equals(challenges.span) { return .attestationChallenge }
        return head.path.of(bytes).equals(metadata.span) ? .resourceMetadata : nil
    }
}
