import EventLoop
import Testing

@Suite("The resolver's table of names")
struct NameBookTests {
    /// Runs the loop until every name was looked up once.
    private func settle(_ book: NameBook, _ loop: Loop) {
        var isAnswered = false
        book.whenAnswered(within: .seconds(30)) {
            isAnswered = true
            loop.stop()
        }
        if !isAnswered { loop.run() }
    }

    /// Settings whose nameserver does not answer. Tests that use them look up only local names.
    private var nobody: ResolverSettings {
        get throws {
            ResolverSettings(nameservers: [try SocketAddress("127.0.0.1:9")], timeout: .milliseconds(10), attempts: 1)
        }
    }

    @Test("localhost resolves without a nameserver, and changes are reported")
    func localhost() throws {
        let loop = try Loop()
        let book = try NameBook(loop: loop, settings: nobody, forbidden: ForbiddenAddresses(listeners: []))
        var changes: [NamedServer] = []
        book.onChange = { changes += $0 }
        let server = NamedServer(host: "localhost", port: 9000)
        book.follow([server])
        #expect(book.addresses(of: server).isEmpty, "never before the loop runs")
        settle(book, loop)
        #expect(book.addresses(of: server).map(\.description) == ["127.0.0.1:9000", "[::1]:9000"])
        #expect(changes == [server] && book.counts(of: server).resolved == 1 && book.unresolved.isEmpty)
    }

    @Test("addresses a new configuration forbids, and names no longer followed, are dropped")
    func reconfigured() throws {
        let loop = try Loop()
        let book = try NameBook(loop: loop, settings: nobody, forbidden: ForbiddenAddresses(listeners: []))
        let server = NamedServer(host: "deep.localhost", port: 9000)
        book.follow([server])
        settle(book, loop)
        var changes: [NamedServer] = []
        book.onChange = { changes += $0 }
        let own = ForbiddenAddresses.Listener(address: try SocketAddress("0.0.0.0:9000"), purpose: "the gateway")
        try book.configure(nobody, ForbiddenAddresses(listeners: [own]))
        #expect(book.addresses(of: server).map(\.description) == ["[::1]:9000"] && changes == [server])
        book.follow([])
        #expect(book.servers.isEmpty && book.addresses(of: server).isEmpty)
        settle(book, loop)
    }

    @Test("names beyond the limit of parallel lookups wait, and unanswered ones time out")
    func bounded() throws {
        let loop = try Loop()
        let book = try NameBook(loop: loop, settings: nobody, forbidden: ForbiddenAddresses(listeners: []))
        let servers = (0..<40).map { NamedServer(host: "host-\($0).test", port: 9000) }
        book.follow(Set(servers))
        settle(book, loop)
        #expect(book.unresolved.count == 40)
        for server in servers { #expect(book.counts(of: server).faults[NameFault.timeout.rawValue] >= 1) }
    }

    @Test("the table can be freed during lookups")
    func dropped() throws {
        let loop = try Loop()
        var book: NameBook? = try NameBook(loop: loop, settings: nobody, forbidden: ForbiddenAddresses(listeners: []))
        book?.onEvent = { _ in Issue.record("an event of a lookup after its end") }
        book?.follow(Set((0..<8).map { NamedServer(host: "host-\($0).test", port: 9000) }))
        // The first turn of the loop begins the lookups.
        let first = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            book = nil
        }
        let end = LoopTimer(loop: loop, interval: .milliseconds(50)) { loop.stop() }
        withExtendedLifetime((first, end)) { loop.run() }
        #expect(book == nil)
    }
}
