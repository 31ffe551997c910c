import Chance
import Testing

@testable import Registry

@Suite("The bounded cache")
struct ClockCacheTests {
    @Test("the cache keeps up to its limit and evicts the least recently used entries first")
    func secondChance() {
        var cache = ClockCache<Int, String>(limit: 3)
        for key in 1...3 { cache.insert(key, "\(key)") }
        #expect(cache.use(1) == "1")
        #expect(cache.use(3) == "3")
        cache.insert(4, "4")
        #expect(cache.count == 3)
        #expect(cache.use(2) == nil)
        #expect(cache.use(1) == "1")
    }

    @Test("a pinned entry is never evicted, and without room nothing is inserted")
    func pinned() {
        var cache = ClockCache<Int, Bool>(limit: 2)
        cache.insert(1, true)
        cache.insert(2, false)
        for key in 3...50 {
            #expect(cache.insert(key, false) { $0 } != nil)
            #expect(cache.use(1) == true)
        }
        cache.update(50) { $0 = true }
        #expect(cache.insert(51, false) { $0 } == nil)
        #expect(cache.insert(51, false, mayGrow: true) { $0 } != nil)
        #expect(cache.count == 3)
        #expect(cache.use(1) == true)
        #expect(cache.use(50) == true)
    }

    @Test("a remembered place is used only while it holds the key")
    func hints() throws {
        var cache = ClockCache<Int, Int>(limit: 3)
        for key in 1...3 { cache.insert(key, key * 10) }
        let place = try #require(cache.slot(of: 3))
        cache.remove(1)
        #expect(cache.slot(of: 3, hint: place) == 0)
        #expect(cache.update(3, hint: place, { $0 }) == 30)
        #expect(cache.slot(of: 1, hint: 0) == nil)
        #expect(cache.slot(of: 2, hint: .max) != nil)
        #expect(cache.remove(1) == nil)
        cache.removeAll { $0 > 20 }
        #expect(cache.entries.map(\.key) == [2])
    }

    @Test("random use agrees with a dictionary on every entry still cached")
    func model() {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        var cache = ClockCache<Int, Int>(limit: 8)
        var model: [Int: Int] = [:]
        for step in 0..<20_000 {
            let key = Int.random(in: 0..<24, using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0, 1:
                cache.insert(key, step)
                model[key] = step
            case 2: if let found = cache.use(key) { #expect(found == model[key], "seed \(seed)") }
            default: cache.remove(key)
            }
            #expect(cache.count <= 8)
        }
    }
}
