import EventLoop
import Testing

@testable import Lifecycle

@Suite("Telling workers of addresses")
struct AddressDeliveryTests {
    private let a = NamedServer(host: "a.test", port: 1)
    private let b = NamedServer(host: "b.test", port: 1)

    @Test("each worker has one message, and what comes about meanwhile is the next, all of it at once")
    func oneAtATime() {
        var delivery = AddressDelivery()
        var told = delivery.changed([a], for: [0, 1])
        #expect(told == [0, 1])
        told = delivery.changed([a], for: [0, 1])
        #expect(told == [])
        told = delivery.changed([b], for: [0, 1])
        #expect(told == [])
        var next = delivery.taken(by: 0)
        #expect(next == [a, b])
        next = delivery.taken(by: 0)
        #expect(next == nil)
        told = delivery.changed([b], for: [0, 1])
        #expect(told == [0], "worker 1 still stands still")
    }

    @Test("who has ended is told nothing any more")
    func ended() {
        var delivery = AddressDelivery()
        _ = delivery.changed([a], for: [0])
        _ = delivery.changed([b], for: [0])
        delivery.ended(0)
        let next = delivery.taken(by: 0)
        #expect(next == nil)
    }
}
