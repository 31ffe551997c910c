/// The properties of a request that determine what its proof must cover.
public struct RequestTraits: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The request has content. Transfer-Encoding is present or Content-Length is above 0. Over HTTP/2, the HEADERS
    /// frame did not end the stream.
    public static let content = RequestTraits(rawValue: 1)
    /// The field Authorization is present.
    public static let authorization = RequestTraits(rawValue: 2)
    /// The field Content-Type is present.
    public static let contentType = RequestTraits(rawValue: 4)
    /// The field Content-Encoding is present.
    public static let contentEncoding = RequestTraits(rawValue: 8)
    /// The device states its counter in the field Attest-Proof-Counter, because its signature contains none.
    public static let proofCounter = RequestTraits(rawValue: 16)
}

/// The components that a proof must cover. These are the four of the target, fields according to the request's traits,
/// and those that a route demands. A proof may cover more. The value is created once for a route.
public struct Coverage: Equatable, Sendable {
    /// Fields that every request of the route must have and its proof must cover.
    public let demanded: [FieldComponent]

    public init(demanding fields: [FieldComponent] = []) {
        demanded = fields
    }

    /// Checks the coverage of a proof.
    ///
    /// - Throws: `incomplete` with the first component that is not covered.
    public func check(_ input: borrowing SignatureInput, for traits: RequestTraits) throws(ProofFault) {
        if let missing = Self.required(traits).subtracting(input.known).first {
            throw .incomplete(missing.component)
        }
        for field in demanded where !input.covers(field) { throw .incomplete(.field(field)) }
    }

    /// Returns the components that a proof of such a request must cover, for clients and for `AcceptSignature`.
    public func components(for traits: RequestTraits) -> [Component] {
        let required = Self.required(traits)
        var components = KnownComponent.allCases.filter { required.contains(KnownComponents($0)) }.map(\.component)
        for field in demanded where !components.contains(.field(field)) { components.append(.field(field)) }
        return components
    }

    private static func required(_ traits: RequestTraits) -> KnownComponents {
        var required = KnownComponents.target
        if traits.contains(.content) { required.insert(KnownComponents(.contentDigest)) }
        if traits.contains(.authorization) { required.insert(KnownComponents(.authorization)) }
        if traits.contains(.contentType) { required.insert(KnownComponents(.contentType)) }
        if traits.contains(.contentEncoding) { required.insert(KnownComponents(.contentEncoding)) }
        if traits.contains(.proofCounter) { required.insert(KnownComponents(.proofCounter)) }
        return required
    }
}

/// The result of comparing a proof's times with the clock. Every result except `fresh` leads to `proof_stale`.
public enum Freshness: Equatable, Sendable, CaseIterable {
    case fresh
    /// The proof was created more than `tolerance` in the future, because the client's clock is fast.
    case ahead
    /// The proof is older than the maximum age.
    case tooOld
    /// The proof was created more than `tolerance` before its challenge was issued.
    case precedesChallenge
    /// The proof's own `expires` has been reached.
    case expired

    /// Tolerance in seconds for a client's clock that is ahead, or that is behind while the challenge is fresh.
    public static let tolerance: Int64 = 60

    /// Compares the times of a proof. All times are seconds since 1970.
    ///
    /// - Parameters:
    ///   - maxAge: The maximum age in seconds, not negative.
    ///   - challengeIssuedAt: The time of issue of the challenge in the proof's nonce.
    public static func check(
        created: Int64, expires: Int64?, now: Int64, maxAge: Int64, challengeIssuedAt: Int64
    ) -> Freshness {
        if created > sum(now, tolerance) { return .ahead }
        if sum(created, maxAge) < now { return .tooOld }
        if sum(created, tolerance) < challengeIssuedAt { return .precedesChallenge }
        // A proof is already expired at the second of `expires`, the strictest reading of RFC 9421 section 2.3.
        if let expires, expires <= now { return .expired }
        return .fresh
    }

    /// Adds with saturation, so that no claimed time overflows.
    private static func sum(_ time: Int64, _ seconds: Int64) -> Int64 {
        let (sum, overflows) = time.addingReportingOverflow(seconds)
        guard overflows else { return sum }
        return seconds < 0 ? .min : .max
    }
}
