import Bytes
import Cryptography
import Registry
import RequestProof
import Testing

@testable import Gateway

@Suite("Content that waits for its proof")
struct CollectedContentTests {
    private let pool = BufferPool(blockSize: 1024)
    private let library: LibraryContext
    private let device: DeviceID

    init() throws {
        library = try LibraryContext()
        device = try #require(DeviceID(1))
    }

    private func digest(_ content: [UInt8], sha512: [UInt8]? = nil) throws -> ContentDigest {
        let digest = try library.sha256(of: content.span)
        var field = try #require(fieldValue(.sha256, digest.bytes))
        if let sha512 {
            let digest = try library.sha512(of: sha512.span)
            field += Array(", ".utf8) + (try #require(fieldValue(.sha512, digest.bytes)))
        }
        return try ContentDigest(parsing: field.span)
    }

    private func fieldValue(_ algorithm: ContentDigest.Algorithm, _ digest: [UInt8]) -> [UInt8]? {
        ContentDigest.fieldValue(algorithm, digest.span)
    }

    @Test("in any pieces it matches its digest, and comes out as it went in")
    func matches() throws {
        let content = (0..<5000).map { UInt8(truncatingIfNeeded: $0) }
        for piece in [1, 999, 5000] {
            let budget = ContentBudget(limit: 5000, share: 5000)
            var collected = try CollectedContent(
                expecting: try digest(content, sha512: content), from: device, pool: pool, budget: budget, library)
            for start in stride(from: 0, to: content.count, by: piece) {
                let part = Array(content[start..<min(start + piece, content.count)])
                let isTaken = try collected.append(part.span)
                #expect(isTaken)
            }
            let isMatch = try collected.matches()
            #expect(isMatch)
            var moved: [UInt8] = []
            while collected.count > 0 {
                var buffer = ByteBuffer(pool: pool)
                collected.move(into: &buffer)
                moved += buffer.copy()
            }
            #expect(moved == content)
            let isFree = budget.take(5000, for: device)
            #expect(isFree, "what has moved is held no more")
        }
    }

    @Test("one wrong digest of two is enough to refuse it")
    func mismatch() throws {
        let content = Array("content".utf8)
        let other = Array("other".utf8)
        for expected in [try digest(other), try digest(content, sha512: other), try digest(other, sha512: content)] {
            var collected = try CollectedContent(
                expecting: expected, from: device, pool: pool, budget: ContentBudget(limit: 100, share: 100), library)
            _ = try collected.append(content.span)
            let isMatch = try collected.matches()
            #expect(!isMatch)
        }
    }

    @Test("a worker holds no more than its budget, and gets it back")
    func budget() throws {
        let budget = ContentBudget(limit: 10, share: 10)
        do {
            var first = try CollectedContent(expecting: nil, from: device, pool: pool, budget: budget, library)
            let six = [UInt8](repeating: 0, count: 6)
            let isTaken = try first.append(six.span)
            #expect(isTaken)
            var second = try CollectedContent(expecting: nil, from: device, pool: pool, budget: budget, library)
            let isRefused = try !second.append(six.span)
            #expect(isRefused && second.count == 0)
        }
        let isFree = budget.take(10, for: device)
        #expect(isFree)
        #expect(pool.outstanding == 0)
    }

    @Test("no device holds more than its share, and none that holds nothing is remembered")
    func share() throws {
        let other = try #require(DeviceID(2))
        let budget = ContentBudget(limit: 10, share: 4)
        #expect(budget.take(4, for: device) && !budget.take(1, for: device))
        #expect(budget.take(4, for: other) && budget.holders == 2)
        budget.give(1, of: device)
        #expect(budget.take(1, for: device) && !budget.take(1, for: device))
        budget.give(4, of: device)
        budget.give(4, of: other)
        #expect(budget.holders == 0 && budget.take(0, for: device) && budget.holders == 0)
    }
}
