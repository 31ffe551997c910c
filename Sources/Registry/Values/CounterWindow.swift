public import Vocabulary

/// Which counter values of a device are spent: the highest, and a bit for each of the 1024 values below it.
///
/// RFC 4303 section 3.4.3, with a longer window. The highest value is spent by definition and takes no bit. Values
/// further behind have no bit any more and count as spent. Nothing clears the bit of a spent value.
public struct CounterWindow: Sendable {
    /// How many values below the highest have a bit.
    public static let length = 1024
    /// The bytes of `bits`.
    public static let bitsSize = length / 8

    public private(set) var highest: UInt32

    /// The bit of value v is bit v mod 64 of word (v mod 1024) / 64: a ring, so that moving the window moves no bits. It
    /// serves the values from highest - 1024 to highest - 1; those below zero do not exist, their bits mean nothing.
    private var words: InlineArray<16, UInt64>

    /// At registration: highest 0, everything below used.
    public init() {
        highest = 0
        words = InlineArray(repeating: .max)
    }

    /// Spends a value if it is unspent and the mode admits it.
    public mutating func accept(_ value: UInt32, mode: CounterMode) -> CounterVerdict {
        // 64 bits wide: in 32 the difference would wrap.
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

    /// Takes over everything the other record knows to be spent.
    public mutating func merge(_ other: CounterWindow) {
        var older = other
        if older.highest > highest { swap(&older, &self) }
        // What the older one has forgotten lies below what the newer one has forgotten.
        if older.highest < highest { older.advance(to: highest) }
        for index in words.indices { words[index] |= older.words[index] }
    }

    /// Makes a value above the highest the highest. Those between become known and unspent.
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
    /// For storing, next to `highest`: 128 bytes; the bit of value v is bit v mod 8 of byte (v mod 1024) / 8.
    public var bits: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.bitsSize)
        for index in words.indices {
            for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: words[index] >> UInt64(8 * shift))) }
        }
        return bytes
    }

    /// What was stored. - Parameter bits: exactly 128 bytes; anything else is no record.
    public init?(highest: UInt32, bits: [UInt8]) {
        guard bits.count == Self.bitsSize else { return nil }
        self.highest = highest
        words = InlineArray { word in
            (0..<8).reduce(0) { value, byte in value | UInt64(bits[word * 8 + byte]) << UInt64(8 * byte) }
        }
    }
}

extension CounterWindow: Equatable {
    /// The same stored form. Two records may differ in bits of values below zero only, and then are not equal.
    public static func == (left: CounterWindow, right: CounterWindow) -> Bool {
        left.highest == right.highest && left.words.indices.allSatisfy { left.words[$0] == right.words[$0] }
    }
}

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

/// What a counter record says to one value.
public enum CounterVerdict: Equatable, Sendable {
    case accepted
    /// The value was spent before.
    case replayed
    /// Further behind than the mode allows, and not known to be spent.
    case late
}

/// One counter value to be made durable, and under which conditions.
public struct CounterEntry: Sendable {
    public let device: DeviceID
    /// The mTLS key the request came with; its binding to the device must be active.
    public let binding: KeyID
    public let counter: UInt32
    /// The epoch of the challenge the proof was made for.
    public let epoch: RandomID
    /// By the assertion that carries the counter.
    public let shown: ShownExtensions
    let mode: CounterMode

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

/// What became of a counter value.
public enum CounterOutcome: Equatable, Sendable {
    /// Spent durably. The only outcome that lets a request through.
    case committed
    case replayed
    /// Behind what is kept of the values below the highest, which may be another gateway's.
    case late(highest: UInt32)
    case deviceRevoked
    /// The binding has ended.
    case bindingEnded
    /// The key has shown an extension that the assertion lacks.
    case extensionWithheld
    /// There is no such device, or the key is bound to another one.
    case unknown
    /// The proof was made for another epoch of the store.
    case epochChanged
    /// Whether it was written is unknown, or it was not. The value stays spent all the same.
    case storeUnavailable
}
