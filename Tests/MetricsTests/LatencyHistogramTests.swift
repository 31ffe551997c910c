import Testing

@testable import Metrics

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
