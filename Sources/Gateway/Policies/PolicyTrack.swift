internal import EventLoop
internal import Policy
internal import Registry
internal import Vocabulary

/// How far one policy has decided about a request.
struct PolicyTrack {
    enum Stage {
        /// Conditions are to be judged, perhaps after the proof.
        case open
        /// All conditions are met, and the decision point is to be asked.
        case due
        case settled
    }

    let policy: Int
    /// Whether what it decides is only counted and logged.
    let isSimulated: Bool
    /// Whether its decision point, if it has one, has a say.
    var asks = true
    var stage = Stage.open

    var isOpen: Bool { if case .open = stage { true } else { false } }
}

/// The policies of a request: the one of its route, and one that is simulated besides.
struct PolicyTracks {
    private(set) var own: PolicyTrack?
    private(set) var trial: PolicyTrack?
    /// The policy of the route, if its decision point alone is simulated.
    private var ownPoint: PolicyTrack?
    /// The verdict of a simulated policy that differs from what was decided.
    private(set) var difference: SimulatedVerdict?

    /// Whether a decision point is to be asked before the request may go on.
    var isAnswerDue: Bool {
        guard let own, !own.isSimulated, case .due = own.stage else { return false }
        return true
    }

    /// Whether conditions are to be judged after the proof.
    var isOpen: Bool { own?.isOpen == true || trial?.isOpen == true }

    mutating func begin(_ policy: Int, _ outline: PolicyOutline) {
        own = PolicyTrack(policy: policy, isSimulated: outline.isSimulated, asks: !outline.isPointSimulated)
        if outline.isPointSimulated, !outline.isSimulated {
            ownPoint = PolicyTrack(policy: policy, isSimulated: true)
        }
        if let simulation = outline.simulation { trial = PolicyTrack(policy: simulation, isSimulated: true) }
    }

    /// Ends all of them: nothing is judged or asked any more.
    mutating func settle() {
        own?.stage = .settled
        trial?.stage = .settled
        ownPoint = nil
    }

    /// Judges the conditions that are open.
    ///
    /// - Parameters:
    ///   - device: Nil where the route requires none; the policies then have no conditions.
    ///   - awaitsProof: Whether a proof follows.
    /// - Returns: The refusal if they are not met.
    mutating func judge(
        _ device: DeviceSnapshot?, awaitsProof: Bool, _ judge: PolicyJudge, _ gateway: GatewayApplication
    ) -> Refusal? {
        let found = Self.judge(&own, device, awaitsProof, judge, gateway)
        let tried = trial == nil ? .nothing : Self.judge(&trial, device, awaitsProof, judge, gateway)
        guard case .unknown = found else {
            note(own, found, tried, of: trial)
            guard case .denied(let violations) = found, let own, !own.isSimulated else { return nil }
            return Refusal(violations, of: judge.policies[own.policy].name)
        }
        return Refusal(.storeUnavailable, "the device's record has left the memory")
    }

    private enum Finding {
        case nothing
        case allowed
        case denied(Violations)
        case unknown
    }

    private static func judge(
        _ track: inout PolicyTrack?, _ device: DeviceSnapshot?, _ awaitsProof: Bool, _ judge: PolicyJudge,
        _ gateway: GatewayApplication
    ) -> Finding {
        guard let open = track, case .open = open.stage else { return .nothing }
        let policy = judge.outlines[open.policy]
        var isFinal = true
        if policy.hasConditions {
            // The configuration admits no conditions where no device is required.
            guard let device, let enforcement = gateway.enforcement else { return .unknown }
            let verdict = judge.verdict(
                of: open.policy, on: device, awaitsProof: awaitsProof, now: WallClock.seconds, enforcement.posture)
            guard let verdict else { return .unknown }
            guard verdict.isAllowed else {
                track?.stage = .settled
                gateway.policyDecided(open, .deny, verdict.violations)
                return .denied(verdict.violations)
            }
            isFinal = verdict.isFinal
        }
        guard isFinal else { return .nothing }
        guard policy.decisionPoint == nil || !open.asks else {
            track?.stage = .due
            return .nothing
        }
        track?.stage = .settled
        gateway.policyDecided(open, .allow, [])
        return .allowed
    }

    private mutating func note(_ own: PolicyTrack?, _ found: Finding, _ tried: Finding, of trial: PolicyTrack?) {
        if let own, own.isSimulated, case .denied(let violations) = found {
            difference = SimulatedVerdict(policy: own.policy, violations: violations)
        }
        switch (found, tried, trial) {
        case (.denied, .allowed, let trial?): difference = SimulatedVerdict(policy: trial.policy, violations: [])
        case (.allowed, .denied(let violations), let trial?), (.nothing, .denied(let violations), let trial?):
            difference = SimulatedVerdict(policy: trial.policy, violations: violations)
        default: break
        }
    }

    /// Records the decision point's answer.
    mutating func answered() { own?.stage = .settled }

    /// Takes the simulated policies whose decision points are to be asked.
    mutating func takeSimulated() -> [PolicyTrack] {
        let due = [own, trial].compactMap(\.self).filter { track in
            if track.isSimulated, case .due = track.stage { true } else { false }
        }
        defer { ownPoint = nil }
        if own?.isSimulated == true { own?.stage = .settled }
        trial?.stage = .settled
        return due + [ownPoint].compactMap(\.self)
    }

    /// Whether a simulated policy's decision point may be due. Asked first, because most requests have none.
    var mayHaveSimulated: Bool { trial != nil || ownPoint != nil || own?.isSimulated == true }
}
