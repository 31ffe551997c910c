/// What `GET /metrics` said at one moment: samples by name and labels, as Prometheus' text format has them.
public struct ScrapedMetrics: Sendable {
    struct Sample: Sendable {
        let labels: [String: String]
        let value: Double
    }

    private var samples: [String: [Sample]] = [:]

    /// Lines that are no sample are passed over.
    public init(_ text: String) {
        for line in text.utf8.split(separator: UInt8(ascii: "\n")) where line.first != UInt8(ascii: "#") {
            guard let (name, sample) = Self.sample(Substring(line)) else { continue }
            samples[name, default: []].append(sample)
        }
    }

    func all(_ name: String) -> [Sample] { samples[name] ?? [] }

    /// The sum of the samples that have these labels; nil if there is none.
    func sum(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        let found = all(name).filter { sample in labels.allSatisfy { sample.labels[$0] == $1 } }
        return found.isEmpty ? nil : found.reduce(0) { $0 + $1.value }
    }

    /// Of each value of a label, the sum of the samples that have it and the other labels.
    func sums(_ name: String, by label: String, _ labels: [String: String] = [:]) -> [String: Double] {
        var sums: [String: Double] = [:]
        for sample in all(name) where labels.allSatisfy({ sample.labels[$0] == $1 }) {
            if let key = sample.labels[label] { sums[key, default: 0] += sample.value }
        }
        return sums
    }

    // MARK: - One line

    private static func sample(_ line: Substring) -> (name: String, sample: Sample)? {
        guard let end = line.lastIndex(of: " "), let value = Double(line[line.index(after: end)...]) else { return nil }
        let series = line[..<end]
        guard let brace = series.firstIndex(of: "{") else {
            return (String(series), Sample(labels: [:], value: value))
        }
        var labels: [String: String] = [:]
        var rest = series[series.index(after: brace)...]
        while let equals = rest.firstIndex(of: "=") {
            let name = String(rest[..<equals])
            rest = rest[rest.index(after: equals)...]
            guard rest.first == "\"" else { return nil }
            rest = rest.dropFirst()
            guard let text = quoted(&rest) else { return nil }
            labels[name] = text
            guard rest.first == "," else { break }
            rest = rest.dropFirst()
        }
        return (String(series[..<brace]), Sample(labels: labels, value: value))
    }

    /// Up to the closing quote, which is taken too.
    private static func quoted(_ rest: inout Substring) -> String? {
        var text = ""
        var isEscaped = false
        while let character = rest.popFirst() {
            switch (isEscaped, character) {
            case (true, "n"):
                text.append("\n")
                isEscaped = false
            case (true, _):
                text.append(character)
                isEscaped = false
            case (false, "\\"): isEscaped = true
            case (false, "\""): return text
            case (false, _): text.append(character)
            }
        }
        return nil
    }
}
