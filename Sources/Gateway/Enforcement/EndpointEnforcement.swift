package import Cryptography
package import HTTP
internal import Policy
package import Registry
internal import RequestProof
package import Vocabulary

/// The enforcement for endpoints that this process answers itself: the checks of a route with `request-proof` that
/// admits every app, in the same order and with the same denials. Belongs to the thread of its library context.
package final class EndpointEnforcement {
    /// A device whose certificate may use the endpoints, with the place of its app.
    package struct Caller {
        package let device: DeviceSnapshot
        /// The id of its app.
        package let app: String
        package let counters: CounterMode
        let place: Int
    }

    /// A verified proof, whose counter is unspent and whose content is not compared yet.
    package struct Proof {
        let verified: VerifiedProof

        /// What is to be spent.
        package var spending: Spending {
            Spending(counter: verified.counter, shown: verified.shown, epoch: verified.epoch)
        }

        /// What an assertion shows of an app on Apple's systems.
        package var app: ShownApp { ShownApp(version: verified.app, distribution: verified.distribution) }
    }

    /// The counter of a verified proof, which is to be spent.
    package struct Spending {
        package let counter: UInt32
        package let shown: ShownExtensions
        /// The epoch of the challenge.
        package let epoch: RandomID

        package init(counter: UInt32, shown: ShownExtensions, epoch: RandomID) {
            self.counter = counter
            self.shown = shown
            self.epoch = epoch
        }

        /// Returns the refusal of a counter that was to be spent in memory. Nil if it is spent there.
        package func refusal(of acceptance: CounterAcceptance) -> Refusal? { Refusal(acceptance, of: counter) }

        /// Returns the refusal of a counter that could not be committed. Nil if it is durable.
        package func refusal(of outcome: CounterOutcome) -> Refusal? { Refusal(outcome, of: counter) }
    }

    private let apps: AdmittedApps
    private let admitted: AppSet
    private let challenges: RequestChallenges
    private let proofs: ProofVerifier
    private let library: LibraryContext

    package init(
        _ settings: Enforcement.Settings, _ registry: DeviceRegistry, _ library: LibraryContext
    ) throws(CryptographyError) {
        apps = try AdmittedApps(settings.apps, registry, library)
        admitted = AppSet(places: settings.apps.indices, of: settings.apps.count)
        challenges = try RequestChallenges(
            settings.secrets, registry.identity, life: settings.challengeLife, library,
            isCurrent: { registry.isCurrent($0) })
        // Phones call the endpoints rarely, so few keys are worth keeping.
        proofs = ProofVerifier(challenges, maxAge: settings.maxAge, keyLimit: 16, library)
        self.library = library
    }

    /// Adopts a new epoch of the store.
    package func renew(_ identity: StoreIdentity) throws(CryptographyError) { try challenges.renew(identity) }

    /// Decides by the device of the certificate.
    ///
    /// - Parameter lookup: The registry's answer; never `pending`.
    package func admit(_ lookup: DeviceLookup, isSelfSigned: Bool) throws(Refusal) -> Caller {
        let access = RouteAccess(lookup, isSelfSigned: isSelfSigned, on: .device, admitting: admitted) { device in
            apps.place(of: device).map { RouteAccess.App(apps[$0], at: $0) }
        }
        switch (access, lookup) {
        case (.device(let app), .found(let device)):
            return Caller(
                device: device, app: String(decoding: apps[app].id, as: UTF8.self), counters: apps[app].counters,
                place: app)
        case (.refused(let refusal), _): throw refusal
        case (.certificate, _), (.device, _): throw Refusal(.deviceUnknown)
        }
    }

    /// Verifies the proof of a request.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`.
    ///   - now: In seconds since 1970.
    package func verify(
        _ head: RequestHead, _ bytes: Span<UInt8>, by caller: Caller, now: Int64
    ) throws(Refusal) -> Proof {
        let verdict = proofs.verify(
            head, bytes, by: caller.device, of: apps[caller.place], covering: Coverage(), now: now)
        switch verdict {
        case .verified(let proof): return Proof(verified: proof)
        case .refused(let refusal): throw refusal
        }
    }

    /// Compares the content with the digest that the proof covers.
    package func match(_ content: [UInt8], of proof: Proof) throws(Refusal) {
        let isMatch: Bool
        do throws(CryptographyError) {
            var digests = try ContentDigests(expecting: proof.verified.contentDigest, library)
            try digests.update(content.span)
            isMatch = try digests.match()
        } catch {
            throw Refusal(.internalError, error.description)
        }
        guard isMatch else { throw Refusal(.bodyDigestMismatch) }
    }

    /// Returns the value of `Accept-Signature` for a request. Nil if no challenge can be made.
    ///
    /// - Parameter caller: Nil if the device is not known.
    package func acceptSignature(for head: RequestHead, _ caller: Caller?, now: Int64) -> [UInt8]? {
        challenges.fieldValue(for: head, Coverage(), by: caller?.device.platform, now: now)
    }
}
