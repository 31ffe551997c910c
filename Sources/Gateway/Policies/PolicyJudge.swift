internal import Policy
internal import Registry
internal import Vocabulary

/// The policies of one worker, and their verdicts on devices.
///
/// A verdict is kept for a device while nothing changes that is known of it, so that most requests cost one comparison.
final class PolicyJudge {
    let policies: [DevicePolicy]
    let outlines: [PolicyOutline]
    private var kept: [Kept?] = Array(repeating: nil, count: placeCount)

    private struct Kept {
        let policy: Int
        let device: DeviceID
        let generation: UInt32
        let awaitsProof: Bool
        let verdict: PolicyVerdict
    }

    /// A power of two.
    private static let placeCount = 1 << 12

    init(_ policies: [DevicePolicy]) {
        self.policies = policies.map(\.unshared)
        outlines = policies.map(\.outline)
    }

    /// Returns the verdict of a policy's conditions on a device.
    ///
    /// - Parameters:
    ///   - awaitsProof: Whether a proof follows, so that conditions on what it states are not judged yet.
    ///   - now: In seconds since 1970.
    ///   - posture: Returns what is known of the device; nil if its record has left the memory meanwhile.
    /// - Returns: nil if `posture` has.
    func verdict(
        of policy: Int, on device: DeviceSnapshot, awaitsProof: Bool, now: Int64,
        _ posture: (DeviceSnapshot) -> (posture: Posture, generation: UInt32)?
    ) -> PolicyVerdict? {
        let place = Int(truncatingIfNeeded: device.id.number &* 31 &+ Int64(2 * policy + (awaitsProof ? 1 : 0)))
        let index = place & (Self.placeCount - 1)
        if let kept = kept[index], kept.device == device.id, kept.policy == policy, kept.awaitsProof == awaitsProof,
            kept.generation == device.postureGeneration, now <= kept.verdict.end
        {
            return kept.verdict
        }
        guard let (posture, generation) = posture(device) else { return nil }
        let verdict = policies[policy].verdict(on: posture, at: now, awaitsProof: awaitsProof)
        kept[index] = Kept(
            policy: policy, device: device.id, generation: generation, awaitsProof: awaitsProof, verdict: verdict)
        return verdict
    }
}

/// The decision of a policy about one request, as counted and logged.
enum PolicyOutcome: Int, CaseIterable, Sendable {
    case allow
    case deny
    /// Its decision point gave no decision.
    case unavailable

    var name: StaticString {
        switch self {
        case .allow: "allow"
        case .deny: "deny"
        case .unavailable: "unavailable"
        }
    }
}

/// The verdict of a policy that is only simulated, where it differs from what was decided.
struct SimulatedVerdict {
    let policy: Int
    /// What the policy finds. Empty if it would allow what was refused.
    let violations: Violations
}

/// What a policy says to a client that it refuses.
struct PolicyObjection: Equatable, Sendable {
    /// Short codes, of this gateway or of a decision point.
    let violations: [String]
    /// A sentence of a decision point for the user, without characters that JSON escapes.
    let reason: String?
}

extension Refusal {
    init(_ violations: Violations, of policy: String) {
        let codes = violations.list.map { String(describing: $0.row.code) }
        self.init(
            .policyDenied, "policy \(policy): \(codes.joined(separator: ", "))",
            objection: PolicyObjection(violations: codes, reason: nil))
    }
}
