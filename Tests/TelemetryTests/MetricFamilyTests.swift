import Testing

@testable import Telemetry

@Suite("Prometheus' text format")
struct MetricsTextTests {
    private func text(_ families: MetricFamily...) -> String {
        String(decoding: MetricsText.encode(families), as: UTF8.self)
    }

    @Test("a family has help, type and samples in this order")
    func families() {
        var requests = MetricFamily(.counter, "requests_total", "Requests.")
        requests.add(3, ["route": "records", "decision": "denied"])
        requests.add(UInt64.max, ["route": "other", "decision": "forwarded"])
        #expect(
            text(requests, MetricFamily(.gauge, "up", "Whether it is up.", 1)) == """
                # HELP requests_total Requests.
                # TYPE requests_total counter
                requests_total{route="records",decision="denied"} 3
                requests_total{route="other",decision="forwarded"} 18446744073709551615
                # HELP up Whether it is up.
                # TYPE up gauge
                up 1

                """)
    }

    @Test("backslashes, quotes and line ends are escaped in labels, and quotes not in help")
    func escaping() {
        var family = MetricFamily(.gauge, "certificate", "Of \"a\\b\"\nand c.")
        family.add(1, ["subject": "CN=\"a\\,b\"\nü"])
        #expect(
            text(family)
                == "# HELP certificate Of \"a\\\\b\"\\nand c.\n# TYPE certificate gauge\n"
                + "certificate{subject=\"CN=\\\"a\\\\,b\\\"\\nü\"} 1\n")
    }

    @Test("families without samples are left out")
    func empty() {
        #expect(text(MetricFamily(.gauge, "nothing", "Nothing.")).isEmpty)
    }

    @Test("labels without a value are left out")
    func labelsWithoutValue() {
        var family = MetricFamily(.gauge, "certificate", "Certificates.")
        for host in ["a.example", nil] { family.add(1, ["listener": "0", "host": host]) }
        family.add(2, ["host": nil])
        #expect(
            text(family).split(separator: "\n").dropFirst(2) == [
                "certificate{listener=\"0\",host=\"a.example\"} 1", "certificate{listener=\"0\"} 1", "certificate 2",
            ])
    }

    @Test("histogram buckets are cumulative, and +Inf equals the count")
    func histograms() {
        var batches = MetricFamily(.histogram, "batch_size", "Batches.")
        batches.add(buckets: [2, 0, 1], upTo: [1, 4], sum: 11, ["kind": "a"])
        #expect(
            text(batches) == """
                # HELP batch_size Batches.
                # TYPE batch_size histogram
                batch_size_bucket{kind="a",le="1"} 2
                batch_size_bucket{kind="a",le="4"} 2
                batch_size_bucket{kind="a",le="+Inf"} 3
                batch_size_sum{kind="a"} 11
                batch_size_count{kind="a"} 3

                """)
    }

    @Test("times are in seconds")
    func seconds() {
        var histogram = LatencyHistogram()
        histogram.record(nanoseconds: 1_500_000)
        var family = MetricFamily(.histogram, "duration_seconds", "Durations.")
        family.add(histogram)
        let lines = text(family).split(separator: "\n")
        #expect(lines.contains("duration_seconds_bucket{le=\"0.001\"} 0"))
        #expect(lines.contains("duration_seconds_bucket{le=\"0.002\"} 1"))
        #expect(lines.contains("duration_seconds_bucket{le=\"10.0\"} 1"))
        #expect(lines.contains("duration_seconds_sum 0.0015"))
    }
}

@Suite("The latency histogram")
struct LatencyHistogramTests {
    @Test("a time is counted in the first bucket whose bound is not below it")
    func bounds() {
        for (place, bound) in LatencyHistogram.bounds.enumerated() {
            var histogram = LatencyHistogram()
            histogram.record(nanoseconds: bound)
            histogram.record(nanoseconds: bound + 1)
            let buckets = histogram.buckets
            #expect(buckets[place] == 1 && buckets[place + 1] == 1 && buckets.reduce(0, +) == 2)
            #expect(histogram.sum == 2 * bound + 1)
        }
    }

    @Test("there is a bucket for each bound and one for everything longer")
    func size() {
        #expect(LatencyHistogram().buckets.count == LatencyHistogram.bounds.count + 1)
        #expect(LatencyHistogram.bounds == LatencyHistogram.bounds.sorted())
        var histogram = LatencyHistogram()
        histogram.record(nanoseconds: .max)
        #expect(histogram.buckets.last == 1)
    }

    @Test("a negative time counts as zero")
    func negative() {
        var histogram = LatencyHistogram()
        histogram.record(nanoseconds: -5)
        #expect(histogram.buckets.first == 1 && histogram.sum == 0)
    }

    @Test("the histograms of two workers add up to that of one")
    func merging() {
        var (first, second, both) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
        for step in Int64(0)..<60 {
            let time = step * step * step * 100_000
            if step % 3 == 0 { first.record(nanoseconds: time) } else { second.record(nanoseconds: time) }
            both.record(nanoseconds: time)
        }
        first.add(second)
        #expect(first.buckets == both.buckets && first.sum == both.sum)
    }
}
