import Testing

@testable import Administration

@Suite("Figures of attestgate top")
struct TopTests {
    @Test("samples are parsed in Prometheus' text format")
    func reading() {
        let metrics = ScrapedMetrics(
            """
            # HELP a_total Of something.
            # TYPE a_total counter
            a_total{route="x",code="say \\"so\\", \\\\ or\\nnot}"} 3
            a_total{route="y",code="b"} 4.5
            plain 1e3
            broken{route="x
            no value
            """)
        #expect(metrics.sum("a_total") == 7.5)
        #expect(metrics.sum("a_total", ["route": "x"]) == 3)
        #expect(metrics.sums("a_total", by: "code") == ["say \"so\", \\ or\nnot}": 3, "b": 4.5])
        #expect(metrics.sum("plain") == 1_000)
        #expect(metrics.sum("absent") == nil && metrics.sum("a_total", ["route": "z"]) == nil)
    }

    private func figures(_ earlier: String, _ later: String, seconds: Double = 2) -> TopFigures {
        TopFigures(from: ScrapedMetrics(earlier), to: ScrapedMetrics(later), seconds: seconds)
    }

    private func requests(_ count: Int) -> String {
        "attestgate_requests_total{route=\"r\",decision=\"forwarded\"} \(count)\n"
    }

    @Test("rates cover the time between two samples, or since a restart")
    func rates() {
        #expect(figures(requests(10), requests(16)).requestsPerSecond == 3)
        #expect(figures(requests(10), requests(4)).requestsPerSecond == 2)
        #expect(figures("", requests(4)).routes == ["r": 2])
        #expect(figures(requests(4), requests(4)).requests == ["forwarded": 0])
    }

    private func histogram(_ counts: [Int]) -> String {
        zip(["0.001", "0.002", "0.004", "+Inf"], counts).map {
            "attestgate_request_duration_seconds_bucket{phase=\"total\",le=\"\($0)\"} \($1)\n"
        }.joined()
    }

    @Test("percentiles cover the time between two samples, evenly within a bucket")
    func percentiles() throws {
        let phase = try #require(
            figures(histogram([100, 100, 100, 100]), histogram([105, 110, 110, 110])).phases.first)
        #expect(phase.name == "total" && phase.perSecond == 5)
        #expect(phase.half == 0.001)
        #expect(try abs(#require(phase.most) - 0.0018) < 1e-9)
        // The position within the last bucket is unknown.
        let slow = try #require(figures("", histogram([0, 0, 0, 10])).phases.first)
        #expect(slow.half == 0.004 && slow.nearlyAll == 0.004)
        let none = try #require(figures(histogram([1, 1, 1, 1]), histogram([1, 1, 1, 1])).phases.first)
        #expect(none.half == nil && none.perSecond == 0)
        // The gateway has restarted.
        let restarted = try #require(figures(histogram([9, 9, 9, 9]), histogram([0, 2, 2, 2])).phases.first)
        #expect(restarted.perSecond == 1 && restarted.half == 0.0015)
    }

    @Test("the most frequent denial comes first; one that never occurred is not shown")
    func denials() {
        let text = [("a", 0), ("b", 5), ("c", 9), ("d", 5)].map {
            "attestgate_denials_total{code=\"\($0)\"} \($1)\n"
        }.joined()
        let earlier =
            "attestgate_denials_total{code=\"b\"} 1\nattestgate_denials_total{code=\"c\"} 9\n"
            + "attestgate_denials_total{code=\"d\"} 5\n"
        #expect(figures(earlier, text).denials.map(\.code) == ["b", "c", "d"])
    }

    @Test("a server's state is the one that most workers report")
    func servers() {
        let text = ["usable": 1, "ejected": 3, "unhealthy": 0].map {
            "attestgate_upstream_server_workers{upstream=\"u\",server=\"s:1\",state=\"\($0)\"} \($1)\n"
        }.joined()
        #expect(figures("", text).servers.map(\.state) == ["ejected"])
    }

    // MARK: - Page

    private var status: StatusDocument {
        StatusDocument(
            version: "1", process: 7, startedAt: 0, obstacles: ["worker 1 does not serve yet"], generation: 2,
            lastReload: StatusDocument.Reload(succeeded: false, at: 0, reason: "a\u{1b}[31m\nb"),
            failedUpgrade: StatusDocument.Failure(at: 0, reason: "no such program"),
            workers: [
                StatusDocument.Worker(worker: 1, up: false, generation: 1, connections: 0, retiredGenerations: 0)
            ], listeners: [], protocols: [], enrolment: nil, upstreams: [], certificates: [],
            revocationLists: [
                StatusDocument.Statement(listener: "l", host: nil, of: "CN=old", nextUpdate: 5, now: 6),
                StatusDocument.Statement(listener: "l", host: nil, of: "CN=new", nextUpdate: 7, now: 6),
            ], ocspResponses: [], apps: [],
            registry: StatusDocument.Registry(
                available: false, countersCommitted: 0, countersWaiting: 0, unavailableSince: 0, reason: "disk full"))
    }

    @Test("problems are shown in the first lines and marked")
    func wrong() {
        let page = TopPage(status, figures("", "attestgate_registry_available 0\n"), width: 200, height: nil)
        let bad = page.lines.filter { $0.style == .bad }.map(\.text)
        for piece in [
            "NOT READY", "LAST RELOAD FAILED", "UPGRADE FAILED: no such program", "NOT AVAILABLE", "disk full",
            "worker 1 IS SILENT", "CN=old",
        ] {
            #expect(bad.contains { $0.contains(piece) }, "\(piece)")
        }
        #expect(!page.lines.contains { $0.text.contains("CN=new") })
    }

    @Test("key exchanges are shown by group, those that occurred")
    func keyExchanges() {
        let text = ["X25519MLKEM768": 6, "P-256": 0, "X25519": 3].map {
            "attestgate_key_exchanges_total{group=\"\($0)\"} \($1)\n"
        }.joined()
        let lines = TopPage(status, figures("", text), width: 200, height: nil).lines.map(\.text)
        #expect(lines.contains("key exchanges X25519MLKEM768 3.00/s, X25519 1.50/s"))
        #expect(
            !TopPage(status, figures(text, text), width: 200, height: nil).lines.contains {
                $0.text.hasPrefix("key exchanges")
            })
    }

    @Test(
        "no line or page exceeds the screen, and no control character reaches the terminal", arguments: [0, 1, 40, 200])
    func fits(width: Int) {
        for height in [1, 3, 100] {
            let page = TopPage(status, figures("", requests(3)), width: width, height: height)
            #expect(page.lines.count <= height && page.lines.allSatisfy { $0.text.count <= width })
            #expect(
                page.lines.flatMap(\.text.unicodeScalars).allSatisfy { $0.properties.generalCategory != .control })
        }
        #expect(TopPage(fault: "a\nb", width: width).lines.allSatisfy { $0.text.count <= width })
    }
}
