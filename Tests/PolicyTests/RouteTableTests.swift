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

    @Test("hosts are compared without case, and unknown hosts have no route")
    func hosts() {
        #expect(name("A.Example", "/") == "root")
        #expect(name("c.example", "/") == "no host")
        #expect(name("xa.example", "/") == "no host")
    }
}
