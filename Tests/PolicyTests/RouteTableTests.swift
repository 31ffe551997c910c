import HTTP
import Policy
import Testing

@Suite("The route table")
struct RouteTableTests {
    private let table = RouteTable([
        Self.route("root", "a.example", "/"),
        Self.route("records", "a.example", "/records"),
        Self.route("own", "a.example", "/records/own", [.get]),
        Self.route("write", "a.example", "/records/own", [.post]),
        Self.route("other", "b.example", "/records"),
    ])

    private static func route(_ name: String, _ host: String, _ prefix: String, _ methods: [Method] = Method.allCases)
        -> Route
    {
        Route(
            name: name, host: host, prefix: prefix, methods: MethodSet(methods), requirement: .certificate, upstream: 0,
            contentLimit: 0)
    }

    private func name(_ host: String, _ path: String, _ method: Method? = .get) -> String {
        switch table.match(host: Array(host.utf8).span, path: Array(path.utf8).span, method: method) {
        case .route(let index): table.routes[index].name
        case .methodRefused(let index): "405 \(table.routes[index].name)"
        case .hostUnknown: "no host"
        case .pathUnknown: "no path"
        }
    }

    @Test("the longest prefix wins, whatever the order of the conf file")
    func longest() {
        #expect(name("a.example", "/") == "root")
        #expect(name("a.example", "/records") == "records")
        #expect(name("a.example", "/records/1") == "records")
        #expect(name("a.example", "/records/own/1") == "own")
    }

    @Test("a prefix ends only at the end of a segment")
    func boundary() {
        #expect(name("a.example", "/recordsx") == "root")
        #expect(name("b.example", "/recordsx") == "no path")
        #expect(name("b.example", "/records/") == "other")
    }

    @Test("routes of one prefix differ by method, and a shorter prefix never takes a refused method")
    func methods() {
        #expect(name("a.example", "/records/own", .get) == "own")
        #expect(name("a.example", "/records/own", .post) == "write")
        #expect(name("a.example", "/records/own", .delete).hasPrefix("405"))
        #expect(name("a.example", "/records/own", nil).hasPrefix("405"))
    }

    @Test(
        "a route admits forms of targets, and only where every reading of the path leads to it",
        arguments: [
            // The path, and whether the route `/common` takes it.
            ("/common/a", true), ("/common/a?b|c", true), ("/common/%7ea/b[1]", true), ("/common/a?", true),
            ("/common/a;b", true), ("/common/a%2Fb", true), ("/common/a;b%2Fc;d/e", true),
            // The prefix itself in another spelling: it would not lead here.
            ("/common%2Fa", false), ("/common;a/b", false), ("/c%6Fmmon/a", false),
            // A longer prefix in another spelling.
            ("/common/%73trict/a", false), ("/common/strict;a/b", false), ("/common/strict%2Fb", false),
            ("/common/%73trict%2Fb", false), ("/common/%2573trict", false), ("/common/stricter;a", true),
            ("/common/x;a%2F..%2Fstrict", false), ("/common/strict;a%2Fb/c", false),
            // Some services drop what is behind `;` once they have decoded the path.
            ("/common/a%3Bb", true), ("/common/strict%3Ba/b", false), ("/common/%73trict%3Ba%2Fb", false),
            // Its own forms are none.
            ("/common/strict/a|b", false), ("/common/strict/a?b|c", false), ("/common/strict/a;b", false),
        ] as [(String, Bool)])
    func targets(_ target: String, _ isTaken: Bool) throws {
        let forms: TargetForms = [.common, .semicolon, .encodedSemicolon, .encodedSlash]
        func route(_ prefix: String, _ forms: TargetForms) -> Route {
            Route(
                name: prefix, host: "a", prefix: prefix, methods: MethodSet(Method.allCases),
                requirement: .certificate, upstream: 0, contentLimit: 0, targetForms: forms)
        }
        let table = RouteTable([route("/", []), route("/common", forms), route("/common/strict", [])])
        let bytes = Array("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        var parser = RequestHeadParser(limits: HeadLimits(bytes: 4096, target: 1024, fields: 8, targetForms: forms))
        var head = RequestHead()
        do throws(MessageFault) { _ = try parser.parse(bytes.span, into: &head) } catch { return #expect(!isTaken) }
        let match = table.match(host: head.host.of(bytes.span), path: head.path.of(bytes.span), method: .get)
        guard case .route(let index) = match else {
            Issue.record("no route")
            return
        }
        let isAdmitted = table.targetFault(of: head, bytes.span, at: index) == nil
        #expect((isAdmitted && table.routes[index].name == "/common") == isTaken)
    }

    @Test("hosts are compared without case, and unknown hosts have no route")
    func hosts() {
        #expect(name("A.Example", "/") == "root")
        #expect(name("c.example", "/") == "no host")
        #expect(name("xa.example", "/") == "no host")
    }
}
