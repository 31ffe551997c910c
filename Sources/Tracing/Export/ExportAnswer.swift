internal import Foundation
internal import Upstream

/// What a collector's answer means (OTLP specification, "OTLP/HTTP Response").
enum ExportAnswer: Equatable {
    /// - rejected: spans of it that the collector has not taken; it says so once and for all.
    case accepted(rejected: Int)
    /// It may be sent again. - after: seconds to wait at least, if the collector says.
    case again(after: Int64?, reason: String)
    case refused(reason: String)

    init(_ result: Result<OutboundAnswer, OutboundFailure>) {
        switch result {
        // What it was, it has said; that there is more than anybody reads makes no difference to it, and the spans may not go twice.
        case .failure(.contentTooLarge(let status)): self.init(status: status, content: [], retryAfter: nil)
        case .failure(let failure): self = .again(after: nil, reason: failure.reason)
        case .success(let answer):
            self.init(status: answer.status, content: answer.content, retryAfter: answer.retryAfter)
        }
    }

    private init(status: UInt16, content: [UInt8], retryAfter: Int64?) {
        switch status {
        case 200..<300: self = .accepted(rejected: Self.rejected(content))
        // "Retryable Response Codes"
        case 429, 502, 503, 504: self = .again(after: retryAfter, reason: "status \(status)")
        default: self = .refused(reason: "status \(status)")
        }
    }

    /// `{"partialSuccess": {"rejectedSpans": "3"}}`, where JSON has 64-bit integers as strings, and readers take numbers too.
    private static func rejected(_ content: [UInt8]) -> Int {
        guard let object = try? JSONSerialization.jsonObject(with: Data(content)) as? [String: Any],
            let partial = object["partialSuccess"] as? [String: Any]
        else { return 0 }
        let text = partial["rejectedSpans"] as? String
        return max(0, text.flatMap { Int($0) } ?? partial["rejectedSpans"] as? Int ?? 0)
    }
}
