/// All samples of one metric, with its help text.
public struct MetricFamily: Sendable {
    public enum Kind: String, Sendable {
        /// A value that only grows until the process ends.
        case counter
        case gauge
        case histogram
    }

    /// Names and values of labels. Values may be any text, which is escaped. A label without a value is left out.
    public typealias Labels = KeyValuePairs<String, String?>

    struct Sample: Sendable {
        /// The suffix of the family's name.
        let suffix: String
        let labels: [(name: String, value: String)]
        let value: String
    }

    public let kind: Kind
    public let name: String
    public let help: String
    private(set) var samples: [Sample] = []

    /// Creates a family without samples.
    ///
    /// - Parameter name: Letters, digits and `_`, not beginning with a digit. It includes the unit, and `_total` at the
    ///   end of a counter.
    public init(_ kind: Kind, _ name: String, _ help: String) {
        precondition(Self.isName(name), "\(name) is not the name of a metric")
        self.kind = kind
        self.name = name
        self.help = help
    }

    /// Creates a family with one sample without labels.
    public init(_ kind: Kind, _ name: String, _ help: String, _ value: some BinaryInteger) {
        self.init(kind, name, help)
        add(value)
    }

    public mutating func add(_ value: some BinaryInteger, _ labels: Labels = [:]) {
        samples.append(Sample(suffix: "", labels: Self.checked(labels), value: "\(value)"))
    }

    public mutating func add(decimal value: Double, _ labels: Labels = [:]) {
        samples.append(Sample(suffix: "", labels: Self.checked(labels), value: "\(value)"))
    }

    /// Adds a histogram of times in seconds.
    public mutating func add(_ histogram: LatencyHistogram, _ labels: Labels = [:]) {
        add(
            buckets: histogram.buckets, upTo: LatencyHistogram.bounds.map { "\(Self.seconds($0))" },
            sum: "\(Self.seconds(histogram.sum))", labels)
    }

    /// Adds a histogram.
    ///
    /// - Parameters:
    ///   - buckets: The count of each bucket, one more than there are bounds.
    ///   - bounds: The greatest value of each bucket except the last.
    public mutating func add(buckets: [UInt64], upTo bounds: [Int], sum: Int, _ labels: Labels = [:]) {
        add(buckets: buckets, upTo: bounds.map(String.init), sum: String(sum), labels)
    }

    private mutating func add(buckets: [UInt64], upTo bounds: [String], sum: String, _ labels: Labels) {
        precondition(kind == .histogram && buckets.count == bounds.count + 1, "a bucket for each bound, and one more")
        let labels = Self.checked(labels)
        var total: UInt64 = 0
        for (count, bound) in zip(buckets, bounds + ["+Inf"]) {
            total += count
            samples.append(Sample(suffix: "_bucket", labels: labels + [("le", bound)], value: "\(total)"))
        }
        samples.append(Sample(suffix: "_sum", labels: labels, value: sum))
        samples.append(Sample(suffix: "_count", labels: labels, value: "\(total)"))
    }

    private static func seconds(_ nanoseconds: Int64) -> Double { Double(nanoseconds) / 1_000_000_000 }

    private static func checked(_ labels: Labels) -> [(name: String, value: String)] {
        labels.compactMap { name, value in
            precondition(isName(name), "\(name) is not the name of a label")
            return value.map { (name, $0) }
        }
    }

    private static func isName(_ text: String) -> Bool {
        let isStart = text.utf8.first.map { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ?? false
        return isStart
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}

/// A histogram of durations in fixed buckets. Recording is one addition, and histograms of several workers can be
/// added.
public struct LatencyHistogram: Sendable {
    /// The greatest duration of each bucket except the last, in nanoseconds: 50 us to 10 s.
    public static let bounds: [Int64] = [
        50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
        100_000_000, 200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000, 10_000_000_000,
    ]

    /// By the number of significant bits of a duration: the first bucket that can hold one. Recording then compares
    /// with one or two bounds.
    private static let firstBuckets: [Int] = (0...64).map { bits in
        let least: Int64 = bits == 0 ? 0 : bits > 63 ? .max : 1 << Int64(bits - 1)
        return bounds.firstIndex { least <= $0 } ?? bounds.count
    }

    /// Stored inline, so that a copy for a scrape shares nothing with the worker that keeps recording.
    private var counts = InlineArray<18, UInt64>(repeating: 0)
    /// The sum of all durations in nanoseconds.
    public private(set) var sum: Int64 = 0

    public init() {}

    /// Records a duration.
    ///
    /// - Parameter nanoseconds: A negative value, which only a faulty clock gives, counts as 0.
    public mutating func record(nanoseconds: Int64) {
        var bucket = Self.firstBuckets[64 - max(0, nanoseconds).leadingZeroBitCount]
        while bucket < Self.bounds.count, nanoseconds > Self.bounds[bucket] { bucket += 1 }
        counts[bucket] += 1
        sum &+= max(0, nanoseconds)
    }

    public mutating func add(_ other: LatencyHistogram) {
        for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
        sum &+= other.sum
    }

    /// The count of each bucket, one more than there are bounds.
    public var buckets: [UInt64] { counts.indices.map { counts[$0] } }
}

/// The text format of Prometheus, version 0.0.4.
public enum MetricsText {
    public static let contentType: StaticString = "text/plain; version=0.0.4; charset=utf-8"

    /// Encodes the families that have samples.
    public static func encode(_ families: [MetricFamily]) -> [UInt8] {
        var text = ""
        for family in families where !family.samples.isEmpty { append(family, to: &text) }
        return Array(text.utf8)
    }

    private static func append(_ family: MetricFamily, to text: inout String) {
        text += "# HELP \(family.name) \(escape(family.help, quotes: false))\n"
        text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
        for sample in family.samples {
            text += family.name
            text += sample.suffix
            if !sample.labels.isEmpty {
                let labels = sample.labels.map { "\($0.name)=\"\(escape($0.value, quotes: true))\"" }
                text += "{\(labels.joined(separator: ","))}"
            }
            text += " \(sample.value)\n"
        }
    }

    private static func escape(_ value: String, quotes: Bool) -> String {
        var escaped = ""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
