/// What a request has that its proof must therefore cover.
public struct RequestTraits: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Transfer-Encoding is present or Content-Length is above 0; over HTTP/2, the HEADERS frame did not end the stream.
    public static let content = RequestTraits(rawValue: 1)
    /// The field Authorization is present.
    public static let authorization = RequestTraits(rawValue: 2)
    /// The field Content-Type is present.
    public static let contentType = RequestTraits(rawValue: 4)
    /// The field Content-Encoding is present.
    public static let contentEncoding = RequestTraits(rawValue: 8)
}

/// Which components a proof must cover: always the four of the target, the fields that the request's traits ask for, and
/// those that a route demands. Made once for a route. Covering more is allowed.
public struct Coverage: Equatable, Sendable {
    /// Fields that every request of the route must have and its proof cover.
    public let demanded: [FieldComponent]

    public init(demanding fields: [FieldComponent] = []) {
        demanded = fields
    }

    /// - Throws: `incomplete`, which names the first component that is not covered.
    public func check(_ input: borrowing SignatureInput, for traits: RequestTraits) throws(ProofFault) {
        if let missing = Self.required(traits).subtracting(input.known).first {
            throw .incomplete(missing.component)
        }
        for field in demanded where !input.covers(field) { throw .incomplete(.field(field)) }
    }

    /// What a proof of such a request must cover, for clients and for `AcceptSignature`.
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
        return required
    }
}

/// Whether a proof is of now. Every verdict but `fresh` leads to `proof_stale`.
public enum Freshness: Equatable, Sendable, CaseIterable {
    case fresh
    /// Made more than `tolerance` in the future: the client's clock is fast.
    case ahead
    /// Made longer ago than the greatest age admitted.
    case tooOld
    /// Made before its challenge was issued, by more than `tolerance`.
    case precedesChallenge
    /// Its own `expires` has come.
    case expired

    /// How far a client's clock may be ahead of ours, and behind it when the challenge is fresh, in seconds.
    public static let tolerance: Int64 = 60

    /// All times are seconds since 1970.
    ///
    /// - Parameters:
    ///   - maxAge: the greatest age in seconds, not negative.
    ///   - challengeIssuedAt: when the challenge in the proof's nonce was made.
    public static func check(
        created: Int64, expires: Int64?, now: Int64, maxAge: Int64, challengeIssuedAt: Int64
    ) -> Freshness {
        if created > sum(now, tolerance) { return .ahead }
        if sum(created, maxAge) < now { return .tooOld }
        if sum(created, tolerance) < challengeIssuedAt { return .precedesChallenge }
        // At its very second the proof has expired already: the strictest reading of RFC 9421 section 2.3.
        if let expires, expires <= now { return .expired }
        return .fresh
    }

    /// Saturates, so that no claimed time overflows.
    private static func sum(_ time: Int64, _ seconds: Int64) -> Int64 {
        let (sum, overflows) = time.addingReportingOverflow(seconds)
        guard overflows else { return sum }
        return seconds < 0 ? .min : .max
    }
}
