public import Vocabulary

/// The spent counter values of a device: the highest value, and a bit for each of the 1024 values below it.
///
/// This is the window of RFC 4303 section 3.4.3 with another length. The highest value is always spent and has no bit.
/// Values below the window have no bit and count as spent. The bit of a spent value is never cleared.
public struct CounterWindow: Sendable {
    /// The number of values below the highest that have a bit.
    public static let length = 1024
    /// The size of `bits` in bytes.
    public static let bitsSize = length / 8

    public private(set) var highest: UInt32

    /// A ring of bits, so that moving the window moves no bits. The bit of value v is bit v mod 64 of word (v mod 1024)
    /// / 64.
    ///
    /// It covers the values from highest - 1024 to highest - 1. Bits of values below zero have no meaning.
    private var words: InlineArray<16, UInt64>

    /// Creates the window of a new device: the highest value is 0, and all values below it are spent.
    public init() {
        highest = 0
        words = InlineArray(repeating: .max)
    }

    /// Spends a value if it is unspent and the mode admits it.
    public mutating func accept(_ value: UInt32, mode: CounterMode) -> CounterVerdict {
        // In 32 bits the difference would wrap.
        let behind = Int64(highest) - Int64(value)
        if behind < 0 {
            advance(to: value)
            return .accepted
        }
        if behind == 0 { return .replayed }
        guard behind <= Int64(Self.length) else { return .late }
        if isSpent(value) { return .replayed }
        guard behind <= mode.reach else { return .late }
        spend(value)
        return .accepted
    }

    /// Adds all values that are spent in the other window.
    public mutating func merge(_ other: CounterWindow) {
        var older = other
        if older.highest > highest { swap(&older, &self) }
        // Values below the older window are also below the newer one.
        if older.highest < highest { older.advance(to: highest) }
        for index in words.indices { words[index] |= older.words[index] }
    }

    /// Raises the highest value. The values between the old and the new one become unspent.
    private mutating func advance(to value: UInt32) {
        let distance = Int(value) - Int(highest)
        if distance > Self.length {
            words = InlineArray(repeating: 0)
        } else {
            spend(highest)
            clear(from: Int(highest) + 1, count: distance - 1)
        }
        highest = value
    }

    private func isSpent(_ value: UInt32) -> Bool {
        let position = Int(value) % Self.length
        return words[position / 64] & (1 << UInt64(position % 64)) != 0
    }

    private mutating func spend(_ value: UInt32) {
        let position = Int(value) % Self.length
        words[position / 64] |= 1 << UInt64(position % 64)
    }

    private mutating func clear(from value: Int, count: Int) {
        var position = value % Self.length
        var left = count
        while left > 0 {
            let shift = position % 64
            let run = min(64 - shift, left)
            let ones: UInt64 = run == 64 ? .max : (1 << UInt64(run)) - 1
            words[position / 64] &= ~(ones << UInt64(shift))
            left -= run
            position = (position + run) % Self.length
        }
    }
}

extension CounterWindow {
    /// The stored form, next to `highest`: 128 bytes. The bit of value v is bit v mod 8 of byte (v mod 1024) / 8.
    public var bits: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.bitsSize)
        for index in words.indices {
            for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: words[index] >> UInt64(8 * shift))) }
        }
        return bytes
    }

    /// Creates a window from its stored form.
    ///
    /// - Parameter bits: Exactly 128 bytes. Other lengths return nil.
    public init?(highest: UInt32, bits: [UInt8]) {
        guard bits.count == Self.bitsSize else { return nil }
        self.highest = highest
        words = InlineArray { word in
            (0..<8).reduce(0) { value, byte in value | UInt64(bits[word * 8 + byte]) << UInt64(8 * byte) }
        }
    }
}

extension CounterWindow: Equatable {
    /// Compares the stored forms. Two windows that differ only in the bits of values below zero are not equal.
    public static func == (left: CounterWindow, right: CounterWindow) -> Bool {
        left.highest == right.highest && left.words.indices.allSatisfy { left.words[$0] == right.words[$0] }
    }
}

/// The rule for the counter values that devices of an app may still use.
///
/// The registry keeps the same record in each mode, so an operator may change the mode at any time.
public struct CounterMode: Hashable, Sendable {
    /// The distance below the highest value up to which an unspent value is accepted.
    let reach: Int64

    private init(reach: Int64) {
        self.reach = reach
    }

    /// Apple's rule: only values above the highest are accepted.
    public static let strict = CounterMode(reach: 0)

    /// Creates a mode that accepts each value once, at most `window` below the highest (RFC 4303 section 3.4.3).
    ///
    /// - Parameter window: 1 to 1024. Other values return nil.
    public init?(window: Int) {
        guard (1...CounterWindow.length).contains(window) else { return nil }
        reach = Int64(window)
    }

    /// The mode for values that were already accepted in memory under the mode of their app. It only checks that a
    /// value is unspent, as far as the record reaches.
    package static let unspent = CounterMode(reach: Int64(CounterWindow.length))
}

extension CounterMode: CustomStringConvertible {
    /// The mode in the syntax of the conf file.
    public var description: String { reach == 0 ? "strict" : "window \(reach)" }
}

/// The result of checking a value against a counter window.
public enum CounterVerdict: Equatable, Sendable {
    case accepted
    /// The value was spent before.
    case replayed
    /// The value is further below the highest than the mode allows, and is not known to be spent.
    case late
}

/// A counter value to be made durable, with its conditions.
public struct CounterEntry: Sendable {
    public let device: DeviceID
    /// The mTLS key of the request. Its binding to the device must be active.
    public let binding: KeyID
    public let counter: UInt32
    /// The epoch of the challenge in the proof.
    public let epoch: RandomID
    /// The extensions in the assertion that carries the counter.
    public let shown: ShownExtensions
    package let mode: CounterMode

    public init(
        device: DeviceID, binding: KeyID, counter: UInt32, epoch: RandomID, shown: ShownExtensions, mode: CounterMode
    ) {
        self.device = device
        self.binding = binding
        self.counter = counter
        self.epoch = epoch
        self.shown = shown
        self.mode = mode
    }
}

extension CounterWindow {
    /// Decides on the counter value of an assertion by the state of its device, and spends it if it is accepted.
    ///
    /// - Parameters:
    ///   - shown: The extensions in the assertion.
    ///   - known: The extensions that the device has shown before. An accepted assertion adds to them.
    ///   - isBound: Whether the binding of the request is active.
    package mutating func spend(
        _ counter: UInt32, mode: CounterMode, showing shown: ShownExtensions, after known: inout ShownExtensions,
        isRevoked: Bool = false, isBound: Bool = true
    ) -> CounterOutcome {
        if isRevoked { return .deviceRevoked }
        guard isBound else { return .bindingEnded }
        guard shown.isSuperset(of: known) else { return .extensionWithheld }
        switch accept(counter, mode: mode) {
        case .replayed: return .replayed
        case .late: return .late(highest: highest)
        case .accepted:
            known.formUnion(shown)
            return .committed
        }
    }
}

/// The result of committing a counter value.
public enum CounterOutcome: Equatable, Sendable {
    /// The value is spent durably. Only this outcome admits the request.
    case committed
    case replayed
    /// The value is below the window. Another gateway may have used the highest value.
    case late(highest: UInt32)
    case deviceRevoked
    /// The binding has ended.
    case bindingEnded
    /// The assertion lacks an extension that an earlier one of the key has shown.
    case extensionWithheld
    /// The device does not exist, or the key is bound to another device.
    case unknown
    /// The proof was made for another epoch of the store.
    case epochChanged
    /// The value was not written, or the result of the write is unknown. The value stays spent in memory.
    case storeUnavailable
}
