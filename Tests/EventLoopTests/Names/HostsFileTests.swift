import Testing

@testable import EventLoop

@Suite("The hosts file")
struct HostsFileTests {
    private static let text = """
        # comment records.internal
        127.0.0.1\tlocalhost
        192.0.2.7   records.internal records  # not labs
        2001:db8::7 Records.Internal\r
        192.0.2.7 records.internal
        fe80::1%eth0 records.internal
        banana records.internal
        192.0.2.007 records.internal
        192.0.2.9
        records.internal
        192.0.2.8 labs
        """

    private func found(_ name: String, in text: String = text) -> [String] {
        HostsFile.addresses(of: name, port: 9000, in: Array(text.utf8)).map(\.description)
    }

    @Test("the addresses of every line with the name are returned, in any case, once each")
    func addresses() {
        #expect(found("records.internal") == ["192.0.2.7:9000", "[2001:db8::7]:9000"])
        #expect(found("records") == ["192.0.2.7:9000"])
        #expect(found("labs") == ["192.0.2.8:9000"])
    }

    @Test("comments, parts of names, malformed lines and a missing file give no address")
    func nothing() {
        for name in ["comment", "record", "internal", "not", "banana", "192.0.2.9", ""] { #expect(found(name) == []) }
        #expect(found("records.internal", in: "") == [])
        #expect(HostsFile.addresses(of: "localhost", port: 1, path: "/nowhere/hosts").isEmpty)
    }
}
