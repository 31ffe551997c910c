import HTTP
import Testing

@Suite("Path spelling")
struct TargetSpellingTests {
    private func forms(ofPath path: String, _ admitted: TargetForms = []) throws -> TargetForms {
        try TargetSpelling.check(path: Array(path.utf8).span, admitting: admitted)
    }

    private func forms(ofQuery query: String, _ admitted: TargetForms = []) throws -> TargetForms {
        try TargetSpelling.check(query: Array(query.utf8).span, admitting: admitted)
    }

    private static let all: TargetForms = [.common, .semicolon, .encodedSemicolon, .encodedSlash]

    @Test(
        "ordinary paths are accepted",
        arguments: [
            "/", "/a", "/a/", "/a/b.c/d-e_f~g", "/a:b@c!$&'()*+,=", "/%20", "/%C3%A9", "/a%3Fb", "/...", "/.a", "/a..b",
            "/%7B%7D", "/%E2%82%AC/%F0%9F%A9%BA", "/%ED%9F%BF", "/%F4%8F%BF%BF",
        ])
    func admitted(_ path: String) throws {
        #expect(try forms(ofPath: path) == [])
        #expect(try forms(ofPath: path, Self.all) == [])
    }

    @Test(
        "second spellings and disguises are refused",
        arguments: [
            "//", "/a//b", "/.", "/..", "/a/../b", "/a/./b", "/a/..", "/a/.",  // empty and dot segments
            "/%2e%2e/b", "/%2E%2E/b", "/a/%2E", "/a/.%2E/b",  // dots in disguise
            "/a%5Cb", "/a%5cb", "/a\\b",  // slashes in disguise
            "/a;jsessionid=1/..;/b",  // path parameters
            "/%25", "/%252e",  // double encoding
            "/%00", "/%0A", "/%0d", "/%1F", "/%7F",  // controls
            "/%", "/%4", "/%zz", "/%G0", "/a%2",  // broken encoding
            "/%C0%AF", "/%C0%AE%C0%AE/b", "/%E0%80%AF", "/%F0%80%80%AF", "/%FF", "/%80", "/%C3", "/%C3a", "/%C3/%A9",
            "/%ED%A0%80", "/%F4%90%80%80", "/%E2%82", "/%c0%af",  // no UTF-8
            "/a b", "/a\"b", "/<a>", "/a`b", "/{a}", "/a#b",  // never unescaped
        ], [TargetForms(), all])
    func refused(_ path: String, _ admitted: TargetForms) {
        let fault = #expect(throws: TargetFault.self) { try forms(ofPath: path, admitted) }
        #expect(fault?.kind == .pathSpelling)
    }

    @Test(
        "what browsers and careless clients send is refused, unless it is admitted",
        arguments: [
            ("/%41", .commonPath), ("/%7E", .commonPath), ("/%2D", .commonPath), ("/a%2Eb", .commonPath),
            ("/%c3%a9", .commonPath), ("/%C3%a9", .commonPath), ("/%3f", .commonPath),
            ("/a|b", .commonPath), ("/a^b", .commonPath), ("/a[1]", .commonPath),
            ("/a;b", .semicolon), ("/a;v=1/b;v=2", .semicolon), ("/a;/b", .semicolon), ("/a/;v", .semicolon),
            ("/a%2Fb", .encodedSlash), ("/a%2F", .encodedSlash), ("/a%2fb", [.encodedSlash, .commonPath]),
            ("/a;b%2Fc/%7e", [.encodedSlash, .commonPath, .semicolon]),
            ("/a%3Bb", .encodedSemicolon), ("/a%3bb", [.encodedSemicolon, .commonPath]),
            ("/a%3Bb;c", [.encodedSemicolon, .semicolon]),
        ] as [(String, TargetForms)])
    func forms(_ path: String, _ forms: TargetForms) throws {
        #expect(throws: TargetFault.self) { try self.forms(ofPath: path) }
        #expect(throws: TargetFault.self) { try self.forms(ofPath: path, .commonQuery) }
        #expect(try self.forms(ofPath: path, forms) == forms)
        #expect(try self.forms(ofPath: path, Self.all) == forms)
        #expect(throws: TargetFault.self) { try self.forms(ofPath: path, Self.all.subtracting(forms)) }
    }

    @Test(
        "no form admits a segment that is empty or dots in any reading",
        arguments: [
            "/%2e", "/%2E%2e/b", "/.%2E/b", "/a/%2E.",  // decoded
            "/%2F", "/a%2F%2Fb", "/a%2F/b", "/%2Fa", "/a/%2Fb",  // empty
            "/a%2F..", "/a%2F..%2Fb", "/..%2Fb", "/a%2f%2e%2e%2fb", "/.%2Fa", "/a%2F.",  // with separators
            "/;a/b", "/;/b", "/a/;b/c", "/..;/b", "/..;a=b/c", "/.;a", "/%2E%2E;a/b", "/a/..;",  // without parameters
            "/a;b%2F..%2Fc", "/a;b%2F../c", "/a%2F;b/c", "/a%2F..;b/c",
            "/%3Ba/b", "/..%3B/b", "/.%3Ba", "/%2E%2E%3ba/b", "/a%3Bb%2F../c",  // the same, decoded first
        ])
    func climbing(_ path: String) {
        #expect(throws: TargetFault.self) { try forms(ofPath: path, Self.all) }
    }

    @Test("a query is present or absent, never empty")
    func queries() throws {
        for query in ["a", "a=b&c=d", "a=/?;:@'", "%20%c3"] {
            #expect(try forms(ofQuery: query) == [], "\(query)")
        }
        for query in ["", "[a]", "{a}", "a|b", "a\\b", "a^b", "a`b"] {
            #expect(throws: TargetFault.self, "\(query)") { try forms(ofQuery: query, .commonPath) }
            #expect(try forms(ofQuery: query, .commonQuery) == .commonQuery, "\(query)")
        }
        for query in ["a b", "%", "%0", "%zz", "a#b", "\"", "<", ">", "%00", "a\u{7f}", "é", "a\tb"] {
            let fault = #expect(throws: TargetFault.self, "\(query)") { try forms(ofQuery: query, Self.all) }
            #expect(fault?.kind == .querySpelling)
        }
    }

    @Test("exactly the characters that WHATWG URLs leave raw are common in queries")
    func rawCharacters() {
        let encoded = Set(" \"#<>".utf8)
        for byte in UInt8.min...UInt8.max where byte != UInt8(ascii: "%") {
            let isRaw = (0x20...0x7e).contains(byte) && !encoded.contains(byte)
            let isAdmitted = (try? TargetSpelling.check(query: [byte].span, admitting: .common)) != nil
            #expect(isAdmitted == isRaw, "\(byte)")
        }
    }

    @Test("services may read a path in these ways")
    func readings() {
        func readings(_ path: String, _ forms: TargetForms) -> [String] {
            TargetSpelling.readings(of: Array(path.utf8).span, with: forms).map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(readings("/%7e%41/b|%c3%a9", .commonPath) == ["/~A/b%7C%C3%A9"])
        #expect(readings("/a;b/c;d", .semicolon) == ["/a;b/c;d", "/a/c"])
        #expect(readings("/a%2fb", .encodedSlash) == ["/a%2Fb", "/a/b"])
        #expect(
            readings("/a;b%2Fc/d", [.semicolon, .encodedSlash])
                == ["/a;b%2Fc/d", "/a/d", "/a;b/c/d", "/a/d", "/a/c/d"])
        #expect(readings("/a%3Bb/c", .encodedSemicolon) == ["/a%3Bb/c", "/a/c"])
        #expect(readings("/a%3Bb;c/d", [.semicolon, .encodedSemicolon]) == ["/a%3Bb;c/d", "/a%3Bb/d", "/a/d"])
        #expect(
            readings("/a%3Bb%2Fc/d", [.encodedSemicolon, .encodedSlash])
                == ["/a%3Bb%2Fc/d", "/a/d", "/a%3Bb/c/d", "/a/d", "/a/c/d"])
    }

    @Test("a fault names a byte and its place, and nothing else of the target")
    func faults() throws {
        func text(_ path: String, _ query: String? = nil) throws -> String? {
            do throws(TargetFault) {
                _ = try TargetSpelling.check(path: Array(path.utf8).span)
                if let query {
                    _ = try TargetSpelling.check(query: Array(query.utf8).span, at: path.utf8.count + 1)
                }
                return nil
            } catch {
                return error.description
            }
        }
        #expect(try text("/a|b") == "byte 0x7c at offset 2 of the target")
        #expect(try text("/a/%7Eb") == "byte 0x25 at offset 3 of the target")
        #expect(try text("/a//b") == "byte 0x2f at offset 3 of the target")
        #expect(try text("/a/../b") == "byte 0x2e at offset 3 of the target")
        #expect(try text("/a", "b|c") == "byte 0x7c at offset 4 of the target")
        #expect(try text("/a", "") == "byte 0x3f at offset 2 of the target")
        #expect(try text("/a\u{1}") == "byte 0x01 at offset 2 of the target")
    }
}
