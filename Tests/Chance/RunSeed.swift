internal import Foundation

/// Where chance begins in every test of a run: ATTESTGATE_SEED repeats a run's choices, else they are new ones.
public enum RunSeed {
    public static let value: UInt64 = {
        guard let text = ProcessInfo.processInfo.environment["ATTESTGATE_SEED"], !text.isEmpty else {
            return .random(in: 0...UInt64.max >> 1)
        }
        // One that was mistyped must not pass as another.
        guard let seed = UInt64(text) else { fatalError("ATTESTGATE_SEED is no number: \(text)") }
        return seed
    }()

    /// The run's seed, printed with the test that begins with it, so that a failure can be repeated.
    @discardableResult
    public static func tell(_ file: String = #fileID, _ test: String = #function) -> UInt64 {
        print("\(file) \(test): seed \(value)")
        return value
    }
}
