/// What a verified assertion says. Only `AssertionVerifier` makes one.
///
/// The counter has not been judged: whether it was seen before is for the registry, whose answer must outlive a crash.
public struct VerifiedAssertion: Equatable, Sendable {
    /// At least 1. Gaps are normal: it counts what was signed, not what arrived.
    public let counter: UInt32
    /// What the app's system says about it; all absent up to iOS 26. Ranges count from the beginning of the assertion.
    public let extensions: AppExtensions

    init(_ data: AuthenticatorData) {
        counter = data.counter
        extensions = data.extensions
    }
}
