internal import Foundation
internal import LoadGeneration

extension LoadReport {
    /// For people.
    var summary: String {
        var lines = [
            "\(mode.rawValue): \(requests) requests in \(number(duration, 2)) s over \(connections) connections"
                + (parallel > 1 ? " (\(version), \(parallel) at a time), " : " (\(version)), ")
                + "\(number(requestsPerSecond, 1)) requests/s"
        ]
        if handshakes > 0 {
            let rate = duration > 0 ? Double(handshakes) / duration : 0
            lines.append("handshakes: \(handshakes) (\(number(rate, 1))/s), \(resumed) of them resumed")
        }
        lines.append(
            "latency in us: p50 \(number(latency.p50)), p90 \(number(latency.p90)), p99 \(number(latency.p99)), "
                + "p99.9 \(number(latency.p999)), max \(number(latency.max))")
        if let openLoop {
            lines.append("asked for \(number(openLoop.rate, 1)) requests/s: backlog at most \(openLoop.backlogMax)")
            if openLoop.unsent > 0 {
                lines.append("\(openLoop.unsent) requests were due but never sent: the latencies are lower bounds")
            }
        }
        if let proofs {
            lines.append("proofs: \(proofs.ahead) made ahead, \(proofs.live) live, \(proofs.missing) missing")
        }
        lines.append("responses: \(bytes) bytes; status " + list(statuses))
        let share = duration > 0 ? ownCPU / duration * 100 : 0
        lines.append("own CPU: \(number(ownCPU, 2)) s, \(number(share))% of one core")
        if let serverCPU {
            let each = requests > 0 ? serverCPU / Double(requests) * 1e6 : 0
            lines.append("server CPU: \(number(serverCPU, 2)) s, \(number(each, 1)) us per request")
        }
        if failed > 0 { lines.append("FAILED: \(failed), " + list(errors)) }
        for (kind, reason) in reasons.sorted(by: { $0.key < $1.key }) { lines.append("  \(kind): \(reason)") }
        if !resumedEnough { lines.append("FAILED: fewer than 99% of the handshakes were resumed") }
        return lines.joined(separator: "\n")
    }

    private func list(_ counts: [String: Int]) -> String {
        counts.isEmpty
            ? "none" : counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
    }

    private func number(_ value: Double, _ decimals: Int = 0) -> String { String(format: "%.\(decimals)f", value) }
}

enum JSONText {
    static func of(_ report: LoadReport) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return String(decoding: try encoder.encode(report), as: UTF8.self)
    }
}
