import EventLoop
import Testing
import Vocabulary

@testable import Registry

@Suite("An import into a database", .enabled(if: PostgreSQLServer.shared != nil))
struct ImportBesideGatewayTests {
    @Test("an import sees the gateways that use the database until they have gone")
    func users() throws {
        let place = try PostgreSQLPlace()
        do {
            let gateway = try AskedStore(place)
            #expect(try place.openAtRest().otherUsers() == 2)
            withExtendedLifetime(gateway) {}
        }
        let registry = try place.openAtRest()
        // The server may need a moment to notice.
        let deadline = Instant.now + .seconds(60)
        while try registry.otherUsers() > 0, Instant.now < deadline {}
        #expect(try registry.otherUsers() == 0)
    }

    @Test("a gateway that joined during an import refuses everything until it is restarted")
    func slippedIn() throws {
        let place = try PostgreSQLPlace()
        let gateway = try AskedStore(place)
        #expect(try gateway.find(1) == nil)
        try place.openAtRest().load { loading throws(RegistryLoadError) in
            try loading.add(ExportSample.head, line: 1)
            try loading.add(ExportSample.leastDevice, line: 2)
        }
        #expect(gateway.run { gateway.failures.contains { $0.contains("replaced by another store while in use") } })
        #expect(throws: StoreError.unavailable) {
            try gateway.perform(.register(Fixture.identity(7), binding: Fixture.bindingKey(7)))
        }
        #expect(throws: StoreError.unavailable) { try gateway.find(1) }
        let again = try AskedStore(place)
        #expect(try again.details(.show(.hardwareKey(Fixture.hardwareKey(1)))).device.state == .pending)
        #expect(throws: StoreError.deviceUnknown) { try again.perform(.show(.hardwareKey(Fixture.hardwareKey(7)))) }
    }
}
