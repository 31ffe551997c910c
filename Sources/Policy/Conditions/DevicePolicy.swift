public import Registry
public import Vocabulary

/// A policy: conditions on what is known of a device, and the decision point that is asked besides.
public struct DevicePolicy: Sendable {
    public let name: String
    /// The conditions for devices of Apple's systems, and for Android devices.
    public let apple: [Condition]
    public let android: [Condition]
    /// The index of the decision point; nil for none.
    public let decisionPoint: Int?
    /// Whether the decision point's answers are only noted.
    public let isPointSimulated: Bool
    /// Whether its verdict is only noted.
    public let isSimulated: Bool
    /// The index of a policy whose verdict is noted besides; nil for none.
    public let simulation: Int?

    public init(
        name: String, apple: [Condition] = [], android: [Condition] = [], decisionPoint: Int? = nil,
        isPointSimulated: Bool = false, isSimulated: Bool = false, simulation: Int? = nil
    ) {
        self.name = name
        self.apple = apple
        self.android = android
        self.decisionPoint = decisionPoint
        self.isPointSimulated = isPointSimulated
        self.isSimulated = isSimulated
        self.simulation = simulation
    }

    /// A copy that shares no memory with this one.
    public var unshared: DevicePolicy {
        DevicePolicy(
            name: String(decoding: Array(name.utf8), as: UTF8.self), apple: apple.map(\.self),
            android: android.map(\.self),
            decisionPoint: decisionPoint, isPointSimulated: isPointSimulated, isSimulated: isSimulated,
            simulation: simulation)
    }

    public var outline: PolicyOutline {
        PolicyOutline(
            hasConditions: !apple.isEmpty || !android.isEmpty, decisionPoint: decisionPoint,
            isPointSimulated: isPointSimulated, isSimulated: isSimulated, simulation: simulation)
    }

    public func conditions(for platform: Platform) -> [Condition] { platform == .android ? android : apple }

    /// Returns the verdict on a posture.
    ///
    /// - Parameters:
    ///   - now: In seconds since 1970-01-01T00:00:00Z.
    ///   - awaitsProof: Whether a proof follows, so that conditions on what it states are not judged yet.
    public func verdict(on posture: Posture, at now: Int64, awaitsProof: Bool = false) -> PolicyVerdict {
        var verdict = PolicyVerdict()
        let defers = awaitsProof && posture.platform != .android
        for condition in conditions(for: posture.platform) {
            if defers, condition.isStatedByProof {
                verdict.isFinal = false
                continue
            }
            switch condition.verdict(on: posture, at: now) {
            case .met: if let end = condition.end(on: posture) { verdict.end = min(verdict.end, end) }
            case .failed, .unknown: verdict.violations.insert(Violations(condition.violation))
            }
        }
        return verdict
    }
}

/// A policy without its name and conditions: trivial, because it is read for every request.
public struct PolicyOutline: Sendable {
    public let hasConditions: Bool
    public let decisionPoint: Int?
    public let isPointSimulated: Bool
    public let isSimulated: Bool
    public let simulation: Int?
}

/// What a policy's conditions say of a device.
public struct PolicyVerdict: Equatable, Sendable {
    /// Empty if all conditions are met.
    public fileprivate(set) var violations: Violations = []
    /// The last second for which it holds while the posture does not change, in seconds since 1970.
    public fileprivate(set) var end = Int64.max
    /// Whether all conditions were judged.
    public fileprivate(set) var isFinal = true

    public var isAllowed: Bool { violations.isEmpty }
}
