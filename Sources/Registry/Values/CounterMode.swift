/// Which counter values an app's devices may still use. Belongs to the app; the registry keeps the same record in every
/// mode, so an operator may change it at any time.
public struct CounterMode: Hashable, Sendable {
    /// How far behind the highest value an unused one is still accepted.
    let reach: Int64

    private init(reach: Int64) {
        self.reach = reach
    }

    /// Apple's rule: only values above the highest.
    public static let strict = CounterMode(reach: 0)

    /// Each value once, at most `window` behind the highest (RFC 4303 section 3.4.3).
    ///
    /// - Parameter window: 1 to 1024; nothing else is a mode.
    public init?(window: Int) {
        guard (1...CounterWindow.length).contains(window) else { return nil }
        reach = Int64(window)
    }

    /// Whatever the record can still tell: what was accepted already in memory, under its app's mode, is only checked for
    /// being unspent.
    static let unspent = CounterMode(reach: Int64(CounterWindow.length))
}

extension CounterMode: CustomStringConvertible {
    /// As the conf file has it.
    public var description: String { reach == 0 ? "strict" : "window \(reach)" }
}
