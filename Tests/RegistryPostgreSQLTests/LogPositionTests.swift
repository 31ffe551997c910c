import Testing

@testable import RegistryPostgreSQL

@Suite("The durable position of PostgreSQL's log")
struct LogPositionTests {
    @Test("a log position counts once flushed, and never within a record")
    func logPosition() {
        var position = LogPosition(durable: 10)
        position.update(inserted: 30, flushed: 20)
        #expect(position.durable == 10)
        // Flushed up to the midst of what follows 30.
        position.update(inserted: 60, flushed: 50)
        #expect(position.durable == 30)
        position.update(inserted: 60, flushed: 60)
        #expect(position.durable == 60)
        position.update(inserted: 5, flushed: 5)
        #expect(position.durable == 60)
    }
}
