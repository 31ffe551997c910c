public import Cryptography
public import DeviceSimulator
internal import TrustClient

/// What the attested mode adds to a run: the devices, and when their proofs are made.
public final class AttestedLoad {
    /// When proofs are made.
    public enum Proofs: Equatable, Sendable {
        /// Each with its request: the load generator pays for one signature a request.
        case live
        /// That many over all devices before the measurement; when they are used up, live ones.
        case ahead(Int)
    }

    /// The most proofs made ahead: some 700 bytes each.
    public static let aheadLimit = 500_000

    let devices: [AttestedDevice]
    let challengeRequest: RequestTemplate
    private let proofs: Proofs

    /// - Throws: if the request cannot be proven, or a key not be used.
    public init(
        _ fleet: DeviceFleet, _ target: LoadURL, _ template: RequestTemplate, _ proofs: Proofs,
        _ library: LibraryContext
    ) throws {
        guard let proven = RequestTarget(url: "https://" + target.authority + target.target),
            let challenge = LoadURL("https://" + target.authority + ProofSession.challengePath)
        else { preconditionFailure("a LoadURL is an https URL without a user") }
        let request = try AttestedRequest(
            method: "\(template.method.name)", target: proven, content: template.content.map { .bytes($0) } ?? .none)
        let counters = try CounterBlocks(fleet.counter)
        devices = try fleet.members.map { try AttestedDevice($0, counters, request, library) }
        challengeRequest = RequestTemplate(challenge, method: .get, body: nil)
        self.proofs = proofs
    }

    /// Makes what is to be made ahead; challenges are there.
    func prepare(now: Int64) throws {
        guard case .ahead(let count) = proofs else { return }
        let each = (count + devices.count - 1) / devices.count
        for device in devices { try device.prepare(each, now: now) }
    }
}
