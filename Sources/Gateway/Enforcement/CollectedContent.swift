internal import Bytes
internal import Cryptography
internal import RequestProof

/// The content of a request that is kept until it is known to be what the proof says.
struct CollectedContent: ~Copyable {
    private var chain: BufferChain
    private let budget: ContentBudget
    private let expected: ContentDigest?
    private var sha256: RunningDigest<32>?
    private var sha512: RunningDigest<64>?

    /// - Parameter expected: every digest in it must match.
    init(
        expecting expected: ContentDigest?, pool: BufferPool, budget: ContentBudget, _ library: LibraryContext
    ) throws(CryptographyError) {
        chain = BufferChain(pool: pool)
        self.budget = budget
        self.expected = expected
        sha256 = expected?.sha256 == nil ? nil : try .sha256(library)
        sha512 = expected?.sha512 == nil ? nil : try .sha512(library)
    }

    deinit {
        budget.give(chain.count)
    }

    var count: Int { chain.count }

    /// - Returns: false if the budget is used up; nothing was taken then.
    mutating func append(_ content: Span<UInt8>) throws(CryptographyError) -> Bool {
        guard budget.take(content.count) else { return false }
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
        budget.give(before - chain.count)
    }
}

/// How much content one worker may hold for requests whose content is not complete or not forwarded yet. A limit for each
/// request is not enough: there may be thousands.
final class ContentBudget {
    private var left: Int

    /// - Parameter limit: in bytes.
    init(limit: Int) {
        left = limit
    }

    func take(_ count: Int) -> Bool {
        guard count <= left else { return false }
        left -= count
        return true
    }

    func give(_ count: Int) { left += count }
}
