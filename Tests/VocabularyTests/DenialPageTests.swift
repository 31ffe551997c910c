import Foundation
import Testing
import Vocabulary

@Suite("DenialPage")
struct DenialPageTests {
    @Test("docs/denials.md is the table")
    func pageIsTable() throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("docs/denials.md")
        if ProcessInfo.processInfo.environment["ATTESTGATE_UPDATE_DOCS"] == "1" {
            try DenialPage.text.write(to: page, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: page, encoding: .utf8) == DenialPage.text)
    }
}

/// `docs/denials.md`, made from the table.
private enum DenialPage {
    static var text: String {
        var lines = [
            "# Denials", "",
            "Every way the gateway refuses something. This page is made from the table in the code",
            "(`Sources/Vocabulary/Denial.swift`); a test keeps the two equal.", "",
            "A refusal in HTTP has a JSON body: `error` is the code, `error_description` the sentence, `error_uri` leads to",
            "more, and `trace_id` finds the log line, which says everything. A refusal in TLS is an alert; its reason stands in",
            "the log. `request_timeout`, `request_malformed` and `too_large` end a connection of HTTP/1.1, for what follows cannot",
            "be trusted to be a request; with HTTP/2 they end the stream. What is told by GOAWAY ends a connection of HTTP/2 with all its",
            "streams.", "",
            "A call of gRPC has no content that its client would see: over HTTP/2 the same is said by `grpc-status`, the code by `attest-denial`, all else by",
            "`grpc-message` ([what such a client does](protocol.md#grpc)).", "",
            "*Retry* says whether sending the same request again can do harm: `safe`, no complete request reached the service",
            "(content that was refused half-way may have begun to); `unknown`, the service may have acted, so only a request",
            "that may be repeated should be.", "",
            "| code | answer | gRPC | whose fault | retry | meaning |", "|---|---|---|---|---|---|",
        ]
        for denial in Denial.allCases {
            let row = denial.row
            lines.append(
                "| `\(row.code)` | \(answer(row.answer)) | \(denial.grpcStatus?.name ?? "") | \(row.fault.rawValue) | \(row.retry.rawValue) | \(row.sentence) |"
            )
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
