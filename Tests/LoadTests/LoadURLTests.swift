import LoadGeneration
import Testing

@Suite("The load URL")
struct LoadURLTests {
    @Test("host, port, authority and target are separated")
    func parts() throws {
        let url = try #require(LoadURL("https://localhost:8443/a/b?c=d"))
        #expect(url.host == "localhost")
        #expect(url.port == 8443)
        #expect(url.authority == "localhost:8443")
        #expect(url.target == "/a/b?c=d")
    }

    @Test("the port is 443 and the path / unless given")
    func defaults() throws {
        let url = try #require(LoadURL("https://example.test"))
        #expect(url.port == 443)
        #expect(url.authority == "example.test")
        #expect(url.target == "/")
        #expect(LoadURL("https://example.test?q")?.target == "/?q")
    }

    @Test("an IPv6 address has brackets only in the authority")
    func addresses() throws {
        let url = try #require(LoadURL("https://[::1]:9/x"))
        #expect(url.host == "::1")
        #expect(url.port == 9)
        #expect(url.authority == "[::1]:9")
    }

    @Test(
        "a URL that cannot stand on a request line is refused",
        arguments: [
            "http://localhost/", "https://", "https:///path", "https://user@host/", "https://host:0/",
            "https://host:x/",
            "https://host:65536/", "https://[::1/", "https://host/a b", "https://host/#part", "https://host/\r\nX: y",
        ])
    func refused(text: String) {
        #expect(LoadURL(text) == nil)
    }
}
