internal import ArgumentParser
internal import Foundation

/// What the dear verifications cost, without a network: CPU time of one thread for each, beside a bare ECDSA one.
struct TimeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "time",
        abstract: "Measures what verifying attestations and assertions costs, beside a bare ECDSA P-256 verification.",
        discussion: "Rounds of all three take turns. Printed are the medians of the rounds, in microseconds.")

    @Option(help: "How many times everything is measured.")
    var rounds = 9

    @Option(help: "How many different keys, attestations and assertions there are.")
    var keys = 100

    func validate() throws {
        guard (1...1_000).contains(rounds) else { throw ValidationError("--rounds must be 1 to 1000") }
        guard (1...10_000).contains(keys) else { throw ValidationError("--keys must be 1 to 10000") }
    }

    func run() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("attestgate-micro-\(getpid())")
            .path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let subject = try Verifications(phones: keys, authorityIn: directory)
        var samples: [Verifications.Kind: [Double]] = [:]
        for _ in 0..<rounds {
            for kind in Verifications.Kind.allCases {
                let before = Self.threadTime()
                try subject.verifyAll(kind)
                samples[kind, default: []].append((Self.threadTime() - before) / Double(keys) * 1e6)
            }
        }
        report(samples)
    }

    private func report(_ samples: [Verifications.Kind: [Double]]) {
        let bare = median(samples[.signature] ?? [])
        print("| verification of | median, us CPU | least | most | times a bare ECDSA verification |")
        print("|---|--:|--:|--:|--:|")
        for kind in Verifications.Kind.allCases {
            let values = samples[kind] ?? []
            let numbers = [median(values), values.min() ?? 0, values.max() ?? 0].map { String(format: "%.1f", $0) }
            let ratio = String(format: "%.2f", median(values) / bare)
            print("| \(kind.rawValue) | \(numbers.joined(separator: " | ")) | \(ratio) |")
        }
    }

    private func median(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        let half = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2
    }

    /// CPU time of this thread, in seconds.
    private static func threadTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
