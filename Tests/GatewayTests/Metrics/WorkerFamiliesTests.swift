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
        for _ in 0..<2 { first.requestEnded(route: a, .http2, .forwarded, 200, RequestTimings()) }
        for _ in 0..<3 { second.requestEnded(route: otherA, .http11, .forwarded, 502, RequestTimings()) }
        second.requestEnded(route: otherB, .http11, .denied, 400, RequestTimings())
        second.requestDenied(.requestMalformed, route: otherB, app: 0)
        first.requestEnded(route: 0, .http11, nil, 0, RequestTimings())
        let lines = text([0: snapshot(first), 1: snapshot(second)], answered: [0, 1])
        for line in [
            "attestgate_requests_total{route=\"a\",decision=\"forwarded\"} 5",
            "attestgate_requests_total{route=\"b\",decision=\"denied\"} 1",
            "attestgate_requests_total{route=\"_none\",decision=\"abandoned\"} 1",
            "attestgate_denials_total{code=\"request_malformed\"} 1",
            "attestgate_route_denials_total{route=\"b\",code=\"request_malformed\"} 1",
            "attestgate_app_denials_total{app=\"_none\",code=\"request_malformed\"} 1",
            "attestgate_responses_total{route=\"a\",status=\"2xx\"} 2",
            "attestgate_responses_total{route=\"a\",status=\"5xx\"} 3",
            "attestgate_responses_total{route=\"b\",status=\"4xx\"} 1",
            "attestgate_responses_total{route=\"_none\",status=\"none\"} 1",
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

    @Test("durations are counted by route, and their sum is that of all")
    func durations() {
        var counts = WorkerCounts()
        let route = counts.placeOfRoute("a")
        _ = counts.placeOfRoute("quiet")
        var timings = RequestTimings(total: .milliseconds(3))
        counts.requestEnded(route: route, .http11, .forwarded, 200, timings)
        timings.upstreamEnd = .milliseconds(2)
        counts.requestEnded(route: 0, .http11, .answered, 200, timings)
        let lines = text([0: snapshot(counts)], answered: [0])
        for line in [
            "attestgate_route_duration_seconds_bucket{route=\"a\",le=\"0.002\"} 0",
            "attestgate_route_duration_seconds_bucket{route=\"a\",le=\"0.005\"} 1",
            "attestgate_route_duration_seconds_count{route=\"_none\"} 1",
            "attestgate_request_duration_seconds_count{phase=\"total\"} 2",
            "attestgate_request_duration_seconds_sum{phase=\"total\"} 0.006",
            "attestgate_request_duration_seconds_bucket{phase=\"upstream_end\",le=\"0.002\"} 1",
        ] {
            #expect(lines.contains(Substring(line)), "\(line)")
        }
        #expect(!lines.contains { $0.contains("route=\"quiet\"") && $0.contains("duration") })
    }

    @Test("denials of several codes and apps are counted each, and those that never occurred have no sample")
    func denials() {
        var counts = WorkerCounts()
        let (route, app) = (counts.placeOfRoute("a"), counts.placeOfApp("TEAMID1234.org.example"))
        counts.requestDenied(.proofStale, route: route, app: app)
        counts.requestDenied(.proofStale, route: route, app: 1)
        counts.requestDenied(.routeUnknown, route: 0, app: 0)
        let lines = text([0: snapshot(counts)], answered: [0]).filter {
            $0.hasPrefix("attestgate_") && $0.contains("_denials_total{")
        }
        #expect(
            lines.filter { !$0.hasPrefix("attestgate_denials_total") } == [
                "attestgate_route_denials_total{route=\"_none\",code=\"route_unknown\"} 1",
                "attestgate_route_denials_total{route=\"a\",code=\"proof_stale\"} 2",
                "attestgate_app_denials_total{app=\"_none\",code=\"route_unknown\"} 1",
                "attestgate_app_denials_total{app=\"_others\",code=\"proof_stale\"} 1",
                "attestgate_app_denials_total{app=\"TEAMID1234.org.example\",code=\"proof_stale\"} 1",
            ])
    }

    @Test("the number of names is bounded, and the rest is counted together")
    func bound() {
        var counts = WorkerCounts()
        for number in 0..<5_000 {
            counts.requestEnded(
                route: counts.placeOfRoute("route-\(number)"), .http11, .forwarded, 200, RequestTimings())
        }
        #expect(counts.routes.names.count == 1_024)
        #expect(counts.placeOfRoute("route-7") == counts.placeOfRoute("route-7"))
        let lines = text([0: snapshot(counts)], answered: [0])
        #expect(lines.contains("attestgate_requests_total{route=\"_others\",decision=\"forwarded\"} 3978"))
    }
}
