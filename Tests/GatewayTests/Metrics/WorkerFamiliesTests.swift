import EventLoop
import Telemetry
import Testing

@testable import Gateway

@Suite("Metrics of several workers")
struct WorkerFamiliesTests {
    private func snapshot(_ counts: WorkerCounts) -> WorkerSnapshot {
        WorkerSnapshot(
            counts: counts, generation: 3, retiredGenerations: 1, connections: 7,
            upstreams: [
                .init(
                    name: "service", busy: 2, idle: 1, waiting: 3,
                    servers: [.init(name: "127.0.0.1:9000", requests: 2, busy: 2, idle: 1, standings: [0, 0, 1, 0, 0])])
            ], buffersInUse: 4, buffersIdle: 5)
    }

    private func text(_ latest: [Int: WorkerSnapshot], answered: Set<Int>) -> [Substring] {
        String(decoding: MetricsText.encode(WorkerFamilies(latest, answered: answered).all), as: UTF8.self)
            .split(separator: "\n")
    }

    @Test("counts are added up by route name, wherever each worker counts them")
    func sums() {
        var (first, second) = (WorkerCounts(), WorkerCounts())
        let a = first.placeOfRoute("a")
        let b = first.placeOfRoute("b")
        // A reload has shown the other worker the names in another order.
        let (otherB, otherA) = (second.placeOfRoute("b"), second.placeOfRoute("a"))
        #expect((a, b) == (otherB, otherA))
        for _ in 0..<2 { first.requestEnded(route: a, .http2, .forwarded, nil, RequestTimings()) }
        for _ in 0..<3 { second.requestEnded(route: otherA, .http11, .forwarded, nil, RequestTimings()) }
        second.requestEnded(route: otherB, .http11, .denied, .requestMalformed, RequestTimings())
        first.requestEnded(route: 0, .http11, nil, nil, RequestTimings())
        let lines = text([0: snapshot(first), 1: snapshot(second)], answered: [0, 1])
        for line in [
            "attestgate_requests_total{route=\"a\",decision=\"forwarded\"} 5",
            "attestgate_requests_total{route=\"b\",decision=\"denied\"} 1",
            "attestgate_requests_total{route=\"_none\",decision=\"abandoned\"} 1",
            "attestgate_denials_total{code=\"request_malformed\"} 1",
            "attestgate_worker_requests_total{worker=\"0\"} 3", "attestgate_worker_requests_total{worker=\"1\"} 4",
            "attestgate_upstream_connections{upstream=\"service\",server=\"127.0.0.1:9000\",state=\"busy\"} 4",
            "attestgate_upstream_waiting{upstream=\"service\"} 6",
            "attestgate_upstream_server_workers{upstream=\"service\",server=\"127.0.0.1:9000\",state=\"ejected\"} 2",
            "attestgate_buffer_blocks{state=\"used\"} 8",
        ] {
            #expect(lines.contains(Substring(line)), "\(line)")
        }
    }

    @Test("a worker without an answer is marked, and its last values stay")
    func silent() {
        let lines = text([0: snapshot(WorkerCounts()), 1: snapshot(WorkerCounts())], answered: [1])
        #expect(lines.contains("attestgate_worker_up{worker=\"0\"} 0"))
        #expect(lines.contains("attestgate_worker_up{worker=\"1\"} 1"))
        #expect(lines.contains("attestgate_connections{worker=\"0\"} 7"))
    }

    @Test("a code shared by several denials has one sample, and every code exists from the start")
    func codes() {
        let lines = text([0: snapshot(WorkerCounts())], answered: [0])
        #expect(lines.count { $0.hasPrefix("attestgate_denials_total{code=\"too_large\"}") } == 1)
        #expect(lines.contains("attestgate_denials_total{code=\"counter_replayed\"} 0"))
        #expect(lines.contains("attestgate_handshakes_total{result=\"certificate_expired\"} 0"))
    }

    @Test("the number of names is bounded, and the rest is counted together")
    func bound() {
        var counts = WorkerCounts()
        for number in 0..<5_000 {
            counts.requestEnded(
                route: counts.placeOfRoute("route-\(number)"), .http11, .forwarded, nil, RequestTimings())
        }
        #expect(counts.routes.names.count == 1_024)
        #expect(counts.placeOfRoute("route-7") == counts.placeOfRoute("route-7"))
        let lines = text([0: snapshot(counts)], answered: [0])
        #expect(lines.contains("attestgate_requests_total{route=\"_others\",decision=\"forwarded\"} 3978"))
    }
}
