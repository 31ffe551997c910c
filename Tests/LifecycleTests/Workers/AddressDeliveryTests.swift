import EventLoop
import Testing

@testable import Lifecycle

@Suite("Delivering addresses to workers")
struct AddressDeliveryTests {
    private let a = NamedServer(host: "a.test", port: 1)
    private let b = NamedServer(host: "b.test", port: 1)

    @Test("each worker has one message in flight, and later changes are joined in the next")
    func oneAtATime() {
        var delivery = AddressDelivery()
        var informed = delivery.changed([a], for: [0, 1])
        #expect(informed == [0, 1])
        informed = delivery.changed([a], for: [0, 1])
        #expect(informed == [])
        informed = delivery.changed([b], for: [0, 1])
        #expect(informed == [])
        var next = delivery.taken(by: 0)
        #expect(next == [a, b])
        next = delivery.taken(by: 0)
        #expect(next == nil)
        informed = delivery.changed([b], for: [0, 1])
        #expect(informed == [0], "worker 1 still stands still")
    }

    @Test("a worker that has ended receives nothing")
    func ended() {
        var delivery = AddressDelivery()
        _ = delivery.changed([a], for: [0])
        _ = delivery.changed([b], for: [0])
        delivery.ended(0)
        let next = delivery.taken(by: 0)
        #expect(next == nil)
    }
}
