internal import Bytes
internal import Cryptography
internal import Registry
internal import RequestProof

/// The content of a request that is kept until it is known to be what the proof says.
struct CollectedContent: ~Copyable {
    private var chain: BufferChain
    private let budget: ContentBudget
    private let device: DeviceID
    private let expected: ContentDigest?
    private var sha256: RunningDigest<32>?
    private var sha512: RunningDigest<64>?

    /// - Parameter expected: every digest in it must match.
    init(
        expecting expected: ContentDigest?, from device: DeviceID, pool: BufferPool, budget: ContentBudget,
        _ library: LibraryContext
    ) throws(CryptographyError) {
        chain = BufferChain(pool: pool)
        self.budget = budget
        self.device = device
        self.expected = expected
        sha256 = expected?.sha256 == nil ? nil : try .sha256(library)
        sha512 = expected?.sha512 == nil ? nil : try .sha512(library)
    }

    deinit {
        budget.give(chain.count, of: device)
    }

    var count: Int { chain.count }

    /// - Returns: false if the budget is used up; nothing was taken then.
    mutating func append(_ content: Span<UInt8>) throws(CryptographyError) -> Bool {
        guard budget.take(content.count, for: device) else { return false }
        chain.append(content)
        try sha256?.update(content)
        try sha512?.update(content)
        return true
    }

    /// Whether all of it hashes to every digest that was expected. Once, when it is complete.
    mutating func matches() throws(CryptographyError) -> Bool {
        var isMatch = true
        if let running = sha256.take(), let expected = expected?.sha256 {
            let digest = try running.finish()
            if !ConstantTime.areEqual(digest.span, expected.span) { isMatch = false }
        }
        if let running = sha512.take(), let expected = expected?.sha512 {
            let digest = try running.finish()
            if !ConstantTime.areEqual(digest.span, expected.span) { isMatch = false }
        }
        return isMatch
    }

    /// Moves as much as fits.
    mutating func move(into output: inout ByteBuffer) {
        let before = chain.count
        chain.move(into: &output)
        budget.give(before - chain.count, of: device)
    }
}

/// How much content one worker may hold for requests whose content is not complete or not forwarded yet. A limit for each
/// request is not enough: there may be thousands. And no device gets more than a share, or one would lock out all others.
final class ContentBudget {
    private var left: Int
    private let share: Int
    /// What devices hold that hold any.
    private var held: [DeviceID: Int] = [:]

    /// - Parameters:
    ///   - limit: in bytes.
    ///   - share: what one device may hold, in bytes: at least the largest content of a request.
    init(limit: Int, share: Int) {
        left = limit
        self.share = share
    }

    /// Devices that hold any.
    var holders: Int { held.count }

    func take(_ count: Int, for device: DeviceID) -> Bool {
        let before = held[device] ?? 0
        guard count <= left, before + count <= share else { return false }
        left -= count
        if before + count > 0 { held[device] = before + count }
        return true
    }

    func give(_ count: Int, of device: DeviceID) {
        guard count > 0, let before = held[device] else { return }
        left += count
        held[device] = before > count ? before - count : nil
    }
}
