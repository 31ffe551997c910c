internal import Attestation
internal import Challenges
internal import Cryptography
internal import HTTP
internal import Registry
internal import RequestProof
internal import Vocabulary

/// A verified proof. Its counter has not been spent yet.
struct VerifiedProof {
    let counter: UInt32
    /// What an assertion shows about the app. The key must show it from now on. Android's signatures show nothing.
    let shown: ShownExtensions
    /// What an assertion shows of the app: its version, and why Apple's system trusted it. Nil if it does not.
    let app: AppVersion?
    let distribution: UInt8?
    /// The digest that the content must have; nil if the request has no content and states no digest.
    let contentDigest: ContentDigest?
    /// Whether the response must contain a new challenge, because this one is past half its life.
    let isChallengeAging: Bool
    /// The store's epoch in the challenge.
    let epoch: RandomID
    /// Whether the signature fields contain other signatures.
    let hasCompany: Bool
    /// The time, in seconds since 1970, at which the proof expires: by its age, its challenge's life, or its own
    /// `expires`.
    let end: Int64
}

/// What the signature of a proof covers besides the request.
private struct SignedFacts {
    let counter: UInt32
    var shown: ShownExtensions = []
    var app: AppVersion?
    var distribution: UInt8?
}

extension Platform {
    /// The algorithm by which devices of the platform prove requests. It follows from the registered device, never from
    /// what a request states.
    var proofAlgorithm: ProofAlgorithm {
        switch self {
        case .iOS, .macOS, .tvOS, .visionOS, .watchOS: .appleAttest
        case .android: .ecdsaP256SHA256
        }
    }
}

/// Verifies the request proofs of one worker. Cheap checks come first; the signature comes last.
final class ProofVerifier {
    enum Verdict {
        case verified(VerifiedProof)
        case refused(Refusal)
    }

    let challenges: RequestChallenges
    private let library: LibraryContext
    private let maxAge: Int64
    private var keys: VerificationKeyCache
    // Kept for their capacity.
    private var fields: ReceivedProofFields?
    private var input: SignatureInput?
    private var signature: ProofSignature?
    private var base = SignatureBase()

    /// - Parameters:
    ///   - maxAge: The maximum age of a proof, in seconds.
    ///   - keyLimit: The maximum of decoded hardware keys.
    init(_ challenges: RequestChallenges, maxAge: Int64, keyLimit: Int, _ library: LibraryContext) {
        self.challenges = challenges
        self.library = library
        self.maxAge = maxAge
        keys = VerificationKeyCache(limit: keyLimit)
    }

    /// Verifies the proof of a request.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`.
    ///   - device: The device to which the client's certificate is bound.
    ///   - now: In seconds since 1970.
    func verify(
        _ head: RequestHead, _ bytes: Span<UInt8>, by device: DeviceSnapshot, of app: AdmittedApp,
        covering coverage: Coverage, now: Int64
    ) -> Verdict {
        var fields = self.fields.take() ?? ReceivedProofFields()
        fields.collect(head, bytes)
        let verdict = verify(&fields, head, bytes, device, app, coverage, now)
        self.fields = consume fields
        return verdict
    }

    private func verify(
        _ fields: inout ReceivedProofFields, _ head: RequestHead, _ bytes: Span<UInt8>, _ device: DeviceSnapshot,
        _ app: AdmittedApp, _ coverage: Coverage, _ now: Int64
    ) -> Verdict {
        do throws(Refusal) {
            let input = try parseInput(fields)
            defer { self.input = input }
            let signature = try parseSignature(fields)
            defer { self.signature = signature }
            guard input.keyID == device.hardwareKey else {
                throw Refusal(.deviceMismatch, "keyid is not the hardware key of the certificate's device")
            }
            // A device that was registered for an app of the other system could avoid the app's rules.
            guard app.isAndroid == (device.platform == .android) else {
                throw Refusal(.appRefused, "the device's platform is not that of its app")
            }
            let algorithm = device.platform.proofAlgorithm
            if let stated = input.algorithm, stated != algorithm {
                throw Refusal(.proofMalformed, "alg is not the algorithm of the device")
            }
            let challenge = try judgeChallenge(input, now)
            try judgeFreshness(input, now, challengeIssuedAt: challenge.issuedAt)
            let digest = try readDigest(fields, input, coverage, algorithm)
            try buildBase(input, head, bytes)
            let signed = try verifySignature(signature, fields, device, app, algorithm)
            return .verified(
                VerifiedProof(
                    counter: signed.counter, shown: signed.shown, app: signed.app, distribution: signed.distribution,
                    contentDigest: digest,
                    isChallengeAging: challenge.isAging, epoch: challenges.epoch,
                    hasCompany: !input.isAlone || !signature.isAlone,
                    end: min(
                        input.created + maxAge, challenge.issuedAt + challenges.lifeSeconds, input.expires ?? .max)))
        } catch {
            return .refused(error)
        }
    }

    // MARK: - The steps, in order

    private func parseInput(_ fields: borrowing ReceivedProofFields) throws(Refusal) -> SignatureInput {
        guard !fields.signatureInput.isAbsent else { throw Refusal(.proofRequired, "no Signature-Input") }
        // Taken out first, so that parsing has the only reference and writes in place.
        let old = input.take()
        do throws(ProofFault) {
            return try SignatureInput(parsing: fields.signatureInput.value, reusing: consume old)
        } catch {
            throw Refusal(error, nil)
        }
    }

    private func parseSignature(_ fields: borrowing ReceivedProofFields) throws(Refusal) -> ProofSignature {
        guard !fields.signature.isAbsent else { throw Refusal(.proofRequired, "no Signature") }
        let old = signature.take()
        do throws(ProofFault) {
            return try ProofSignature(parsing: fields.signature.value, reusing: consume old)
        } catch {
            throw Refusal(error, nil)
        }
    }

    private func judgeChallenge(
        _ input: SignatureInput, _ now: Int64
    ) throws(Refusal) -> (issuedAt: Int64, isAging: Bool) {
        let verdict: ChallengeVerdict
        do throws(CryptographyError) {
            verdict = try challenges.verdict(on: input.nonce, now: UInt64(max(0, now)))
        } catch {
            throw Refusal(.internalError, error.description)
        }
        switch verdict {
        case .fresh(let issuedAt, let pastHalfLife): return (Int64(clamping: issuedAt), pastHalfLife)
        case .expired: throw Refusal(.challengeRequired, "the challenge has expired")
        case .premature:
            throw Refusal(.challengeRequired, "the challenge is from the future")
        case .foreign:
            // After the promotion of a standby, another gateway may know the new epoch earlier.
            guard challenges.isEpochCurrent else {
                throw Refusal(.storeUnavailable, "the registry does not answer: the challenge may be of a fresh epoch")
            }
            throw Refusal(.challengeRequired, "the challenge belongs to another store or epoch")
        case .malformed: throw Refusal(.challengeRequired, "the nonce is not a challenge")
        }
    }

    private func judgeFreshness(_ input: SignatureInput, _ now: Int64, challengeIssuedAt: Int64) throws(Refusal) {
        let freshness = Freshness.check(
            created: input.created, expires: input.expires, now: now, maxAge: maxAge,
            challengeIssuedAt: challengeIssuedAt)
        switch freshness {
        case .fresh: return
        case .ahead: throw Refusal(.proofStale, "created is \(input.created - now) s in the future")
        case .tooOld: throw Refusal(.proofStale, "created is \(now - input.created) s in the past")
        case .precedesChallenge: throw Refusal(.proofStale, "created is before the challenge was issued")
        case .expired: throw Refusal(.proofStale, "expires is in the past")
        }
    }

    /// Also without content: a stated digest must be true.
    private func readDigest(
        _ fields: borrowing ReceivedProofFields, _ input: SignatureInput, _ coverage: Coverage,
        _ algorithm: ProofAlgorithm
    ) throws(Refusal) -> ContentDigest? {
        do throws(ProofFault) {
            var traits = fields.traits
            if algorithm == .ecdsaP256SHA256 { traits.insert(.proofCounter) }
            try coverage.check(input, for: traits)
            guard !fields.contentDigest.isAbsent else { return nil }
            return try ContentDigest(parsing: fields.contentDigest.value)
        } catch {
            throw Refusal(error, input)
        }
    }

    private func buildBase(_ input: SignatureInput, _ head: RequestHead, _ bytes: Span<UInt8>) throws(Refusal) {
        guard let method = head.methodBytes else { throw Refusal(.methodRefused) }
        let query = (head.query ?? .empty).of(bytes)
        let parts = RequestParts(
            method: method.span, authority: head.authority.of(bytes), path: head.path.of(bytes), query: query)
        do throws(ProofFault) {
            try base.build(input, of: parts) { name, value in
                for index in head.fields.indices {
                    let field = head.fields[index]
                    guard field.nameRange.of(bytes).equals(lowercase: name) else { continue }
                    value.add(field.valueRange.of(bytes))
                }
            }
        } catch {
            throw Refusal(error, input)
        }
    }

    /// Verifies the signature over the base by the algorithm of the device's platform.
    ///
    /// - Returns: What is signed.
    private func verifySignature(
        _ signature: ProofSignature, _ fields: borrowing ReceivedProofFields, _ device: DeviceSnapshot,
        _ app: AdmittedApp, _ algorithm: ProofAlgorithm
    ) throws(Refusal) -> SignedFacts {
        switch algorithm {
        case .appleAttest:
            let assertion = try verifyAssertion(signature, device, app)
            try judgeExtensions(assertion.extensions, signature, device, app)
            let extensions = assertion.extensions
            return SignedFacts(
                counter: assertion.counter, shown: extensions.shown,
                app: extensions.bundleVersion.flatMap {
                    AppVersion(bundleVersion: signature.assertion.span.extracting($0))
                }, distribution: extensions.validationCategory.flatMap { UInt8(exactly: $0.rawValue) })
        case .ecdsaP256SHA256:
            return SignedFacts(counter: try verifyECDSA(signature, fields, device))
        }
    }

    /// Returns the counter in the field, which the base covers.
    private func verifyECDSA(
        _ signature: ProofSignature, _ fields: borrowing ReceivedProofFields, _ device: DeviceSnapshot
    ) throws(Refusal) -> UInt32 {
        let counter: UInt32
        do throws(ProofFault) {
            counter = try ProofCounter.value(of: fields.proofCounter.value)
            try signature.checkECDSA()
        } catch {
            throw Refusal(error, nil)
        }
        let (hash, key) = try prepare(device)
        guard key.verify(digest: hash, fixedWidthSignature: signature.assertion.span) else {
            throw Refusal(.proofInvalid, "the signature does not verify")
        }
        return counter
    }

    /// Returns the hash of the base, and the device's key.
    private func prepare(_ device: DeviceSnapshot) throws(Refusal) -> (hash: Digest256, key: P256VerificationKey) {
        do throws(CryptographyError) {
            let signed = base.bytes
            return (
                try library.sha256(of: signed.span), try keys.verifier(of: device.hardwareKey, device.point, library)
            )
        } catch {
            throw Refusal(.internalError, error.description)
        }
    }

    private func verifyAssertion(
        _ signature: ProofSignature, _ device: DeviceSnapshot, _ app: AdmittedApp
    ) throws(Refusal) -> VerifiedAssertion {
        let (hash, key) = try prepare(device)
        do throws(AssertionFault) {
            return try AssertionVerifier.verify(
                signature.assertion.span, clientDataHash: hash.span, key: key, rpIDHash: app.rpIDHash.span,
                digests: library)
        } catch {
            throw Refusal(error)
        }
    }

    /// Checks the extensions after the signature is verified: the verdict is then about what the key has signed, and
    /// strangers do not learn what the app must be.
    private func judgeExtensions(
        _ extensions: AppExtensions, _ signature: ProofSignature, _ device: DeviceSnapshot, _ app: AdmittedApp
    ) throws(Refusal) {
        do throws(ExtensionFault) {
            try app.extensions.judge(extensions, of: signature.assertion.span, after: device.shown)
        } catch {
            throw Refusal(error, extensions.validationCategory)
        }
    }
}

/// The fields of a request that concern its proof. A worker uses one value for all requests and keeps its capacity.
struct ReceivedProofFields: ~Copyable {
    var signatureInput = CombinedField()
    var signature = CombinedField()
    var contentDigest = CombinedField()
    var proofCounter = CombinedField()
    private(set) var traits = RequestTraits()

    /// Collects the fields in one pass.
    mutating func collect(_ head: RequestHead, _ bytes: Span<UInt8>) {
        signatureInput.removeAll()
        signature.removeAll()
        contentDigest.removeAll()
        proofCounter.removeAll()
        traits = Self.contentTraits(of: head)
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            case .signatureInput: signatureInput.add(field.valueRange.of(bytes))
            case .signature: signature.add(field.valueRange.of(bytes))
            case .contentDigest: contentDigest.add(field.valueRange.of(bytes))
            case .attestProofCounter: proofCounter.add(field.valueRange.of(bytes))
            default: traits.formUnion(Self.traits(of: field.name))
            }
        }
    }

    /// Returns the traits of a request that a proof must cover.
    static func traits(of head: RequestHead) -> RequestTraits {
        var traits = contentTraits(of: head)
        for index in head.fields.indices { traits.formUnion(Self.traits(of: head.fields[index].name)) }
        return traits
    }

    private static func contentTraits(of head: RequestHead) -> RequestTraits {
        head.framing.hasContent ? .content : []
    }

    private static func traits(of name: FieldName) -> RequestTraits {
        switch name {
        case .authorization: .authorization
        case .contentType: .contentType
        case .contentEncoding: .contentEncoding
        default: []
        }
    }
}

/// One worker's recently used hardware keys in decoded form: decoding takes a third of a verification's time, and a
/// key 2 KiB.
///
/// There are two generations: when the young one is full it becomes the old one, and a key that is used again moves
/// over. This is nearly as good as exact LRU order, without links or counts.
struct VerificationKeyCache {
    private var young: [KeyID: P256VerificationKey] = [:]
    private var old: [KeyID: P256VerificationKey] = [:]
    private let limit: Int

    /// Creates an empty cache.
    ///
    /// - Parameter limit: The maximum of keys.
    init(limit: Int) {
        self.limit = max(1, limit / 2)
    }

    var count: Int { young.count + old.count }

    /// Returns the decoded key.
    ///
    /// - Parameter key: The id of the point, which is the cache's key.
    mutating func verifier(
        of key: KeyID, _ point: PublicPoint, _ library: LibraryContext
    ) throws(CryptographyError) -> P256VerificationKey {
        if let known = young[key] { return known }
        let verifier: P256VerificationKey
        if let known = old.removeValue(forKey: key) {
            verifier = known
        } else {
            let bytes = point.bytes
            verifier = try P256VerificationKey(point: bytes.span, library)
        }
        if young.count == limit {
            old = young
            young = [:]
        }
        young[key] = verifier
        return verifier
    }
}
