import Foundation
import Testing
import Vocabulary

@Suite("The page of denials")
struct DenialPageTests {
    @Test("docs/denials.md equals the denial table")
    func pageIsTable() throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("docs/denials.md")
        if ProcessInfo.processInfo.environment["ATTESTGATE_UPDATE_DOCS"] == "1" {
            try DenialPage.text.write(to: page, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: page, encoding: .utf8) == DenialPage.text)
    }
}

/// A generator of `docs/denials.md` from the table, in the form of the Markdown formatter.
private enum DenialPage {
    static var text: String {
        var lines = [
            "# Denials", "",
            "Every way in which the gateway refuses something. This page is generated from the table in",
            "`Sources/Vocabulary/Denial.swift`.", "",
            "A refusal in HTTP has a JSON body: `error` is the code, `error_description` the sentence,",
            "`error_uri` a link, and `trace_id` finds the log line with all details. A refusal in TLS is an",
            "alert; the log has its reason. Where [a proxy terminates TLS](adoption/edges.md), it is HTTP 401.",
            "`request_timeout`, `request_malformed` and `too_large` end a connection of HTTP/1.1, because the",
            "following bytes may not be a request; in HTTP/2 they end the stream. GOAWAY ends a connection of",
            "HTTP/2 with all its streams.", "",
            "A gRPC client sees no content: over HTTP/2 `grpc-status` has the status, `attest-denial` the code",
            "and `grpc-message` the rest ([what such a client does](protocol.md#grpc)).", "",
            "*Retry* says whether the same request may be sent again. `safe`: no complete request reached the",
            "service, though a part of streamed content may have. `unknown`: the service may have acted, so",
            "repeat only idempotent requests.", "",
            "*Observed*: a route with `enforce: observe` or a share",
            "[lets such requests pass](adoption/rollout.md).", "",
            "| code | answer | gRPC | whose fault | retry | observed | meaning |",
            "| -- | -- | -- | -- | -- | -- | -- |",
        ]
        for denial in Denial.allCases {
            let row = denial.row
            lines.append(
                "| `\(row.code)` | \(answer(row.answer)) | \(denial.grpcStatus?.name ?? "") | \(row.fault.rawValue) | \(row.retry.rawValue) | \(denial.isObservable ? "yes" : "") | \(row.sentence) |"
            )
        }
        lines += [
            "", "## Violations", "",
            "`policy_denied` has a list `violations` besides: what the device lacks for the",
            "[policy](policies.md), or codes of a decision point. A fact that is not known counts as lacking.", "",
            "| code | meaning | what an app can tell its user |", "| -- | -- | -- |",
        ]
        for violation in Violation.allCases {
            let row = violation.row
            lines.append("| `\(row.code)` | \(row.meaning) | \(row.advice) |")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func answer(_ answer: Denial.Answer) -> String {
        switch answer {
        case .status(let status): "HTTP \(status)"
        case .alert(let alert): "TLS alert `\(alert.name)` (\(alert.rawValue))"
        case .fittingAlert: "the TLS alert that fits"
        case .close: "the connection is closed"
        case .goAway: "HTTP/2 GOAWAY"
        }
    }
}
