import EventLoop
import Testing

@Suite("Forbidden addresses of names")
struct ForbiddenAddressesTests {
    private func objection(to address: String, listeners: [String], machine: [String] = ["192.0.2.1:0"]) throws
        -> String?
    {
        let forbidden = try ForbiddenAddresses(
            listeners: listeners.map { .init(address: try SocketAddress($0), purpose: "the administration") })
        let addresses = try machine.map { try SocketAddress($0) }
        return forbidden.objection(to: try SocketAddress(address)) { addresses }
    }

    @Test(
        "an own listener at its port is forbidden in every spelling",
        arguments: [
            ("127.0.0.1:9464", ["127.0.0.1:9464"]),
            ("[::1]:9464", ["127.0.0.1:9464", "[::1]:9464"]),
            ("[::ffff:127.0.0.1]:9464", ["127.0.0.1:9464"]),
            ("127.0.0.1:9464", ["0.0.0.0:9464"]),
            ("127.1.2.3:9464", ["0.0.0.0:9464"]),
            ("[::1]:9464", ["[::]:9464"]),
            ("192.0.2.1:9464", ["0.0.0.0:9464"]),
            ("192.0.2.1:9464", ["192.0.2.1:9464"]),
            ("[::ffff:192.0.2.1]:9464", ["0.0.0.0:9464"]),
        ])
    func own(address: String, listeners: [String]) throws {
        #expect(try objection(to: address, listeners: listeners) == "is the address of the administration")
    }

    @Test(
        "another port, machine or family is not forbidden",
        arguments: [
            ("127.0.0.1:9465", ["127.0.0.1:9464", "0.0.0.0:9464"]),
            ("127.0.0.2:9464", ["127.0.0.1:9464"]),
            ("192.0.2.2:9464", ["0.0.0.0:9464"]),
            ("[::1]:9464", ["0.0.0.0:9464"]),
            ("127.0.0.1:9464", ["[::]:9464"]),
            ("127.0.0.1:9464", []),
        ])
    func others(address: String, listeners: [String]) throws {
        #expect(try objection(to: address, listeners: listeners) == nil)
    }

    @Test(
        "unspecified, multicast and broadcast addresses are forbidden",
        arguments: [
            "0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1", "224.0.0.1:1", "239.255.255.255:1", "255.255.255.255:1",
            "[ff02::1]:1",
        ])
    func nobodys(address: String) throws {
        #expect(try objection(to: address, listeners: []) != nil)
    }

    @Test("the machine's own addresses are those of its interfaces, with loopback")
    func machine() throws {
        let loopback = try SocketAddress("127.0.0.1:0")
        #expect(MachineAddresses.current.contains(loopback))
    }
}
