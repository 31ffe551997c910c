import HTTP
import Testing

@Suite("Path spelling")
struct TargetSpellingTests {
    @Test(
        "ordinary paths are accepted",
        arguments: [
            "/", "/a", "/a/", "/a/b.c/d-e_f~g", "/a:b@c!$&'()*+,=", "/%20", "/%C3%A9", "/a%3Fb", "/...", "/.a", "/a..b",
            "/%7B%7D", "/%E2%82%AC/%F0%9F%A9%BA", "/%ED%9F%BF", "/%F4%8F%BF%BF",
        ])
    func admitted(_ path: String) {
        #expect(throws: Never.self) { try TargetSpelling.check(path: Array(path.utf8).span) }
    }

    @Test(
        "second spellings and disguises are refused",
        arguments: [
            "//", "/a//b", "/.", "/..", "/a/../b", "/a/./b", "/a/..", "/a/.",  // empty and dot segments
            "/%2e%2e/b", "/%2E%2E/b", "/a/%2E", "/a/.%2E/b",  // dots in disguise
            "/a%2Fb", "/a%2fb", "/a%5Cb", "/a%5cb", "/a\\b",  // slashes in disguise
            "/a;b", "/a;jsessionid=1/..;/b",  // path parameters
            "/%41", "/%7E", "/%2D",  // encoded without need
            "/%c3%a9", "/%C3%a9",  // lower-case hexadecimal
            "/%25", "/%252e",  // double encoding
            "/%00", "/%0A", "/%0d", "/%1F", "/%7F",  // controls
            "/%", "/%4", "/%zz", "/%G0", "/a%2",  // broken encoding
            "/%C0%AF", "/%C0%AE%C0%AE/b", "/%E0%80%AF", "/%F0%80%80%AF", "/%FF", "/%80", "/%C3", "/%C3a", "/%C3/%A9",
            "/%ED%A0%80", "/%F4%90%80%80", "/%C3%a9", "/%E2%82",  // no UTF-8, or a second spelling in it
            "/a b", "/a\"b", "/<a>", "/a|b", "/a^b", "/a`b", "/{a}",  // never unescaped
        ])
    func refused(_ path: String) {
        #expect(throws: MessageFault.pathSpelling) { try TargetSpelling.check(path: Array(path.utf8).span) }
    }

    @Test("a query is present or absent, never empty")
    func queries() {
        for query in ["a", "a=b&c=d", "a=/?;:@", "%20%c3"] {
            #expect(throws: Never.self, "\(query)") { try TargetSpelling.check(query: Array(query.utf8).span) }
        }
        for query in ["", "a b", "%", "%0", "%zz", "a#b", "\"", "%00", "[a]"] {
            #expect(throws: MessageFault.querySpelling, "\(query)") {
                try TargetSpelling.check(query: Array(query.utf8).span)
            }
        }
    }
}
