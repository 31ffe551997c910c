import LoadGeneration
import Testing

@Suite("The URL that load is put on")
struct LoadURLTests {
    @Test("Host, port, authority and target are taken apart")
    func parts() throws {
        let url = try #require(LoadURL("https://localhost:8443/a/b?c=d"))
        #expect(url.host == "localhost")
        #expect(url.port == 8443)
        #expect(url.authority == "localhost:8443")
        #expect(url.target == "/a/b?c=d")
    }

    @Test("The port is 443 and the path / unless given")
    func defaults() throws {
        let url = try #require(LoadURL("https://example.test"))
        #expect(url.port == 443)
        #expect(url.authority == "example.test")
        #expect(url.target == "/")
        #expect(LoadURL("https://example.test?q")?.target == "/?q")
    }

    @Test("An IPv6 address stands in brackets in the authority only")
    func addresses() throws {
        let url = try #require(LoadURL("https://[::1]:9/x"))
        #expect(url.host == "::1")
        #expect(url.port == 9)
        #expect(url.authority == "[::1]:9")
    }

    @Test(
        "What cannot go on a request line is refused",
        arguments: [
            "http://localhost/", "https://", "https:///path", "https://user@host/", "https://host:0/",
            "https://host:x/",
            "https://host:65536/", "https://[::1/", "https://host/a b", "https://host/#part", "https://host/\r\nX: y",
        ])
    func refused(text: String) {
        #expect(LoadURL(text) == nil)
    }
}
