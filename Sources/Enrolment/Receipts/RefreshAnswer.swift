internal import Foundation
internal import Upstream

/// What Apple says when it is asked for a newer receipt ("Assessing fraud risk").
enum RefreshAnswer: Equatable {
    /// A newer one; not verified yet.
    case receipt([UInt8])
    /// There is no newer one: 304.
    case unchanged
    /// The receipt is none, or none for this service: 400.
    case malformed
    /// We are not who may ask: 401. Our configuration is wrong, whichever device it was about.
    case tokenRefused
    /// Nothing is known of the device: 404.
    case unknown
    /// We ask too often: 429.
    case tooMany(retryAfter: Int64?)
    /// No answer, or none that is understood. - reason: for logs: one word, and what more there is to say.
    case failed(String)

    init(_ result: Result<OutboundAnswer, OutboundFailure>) {
        switch result {
        case .failure(let failure): self = .failed(failure.reason)
        case .success(let answer): self.init(answer)
        }
    }

    private init(_ answer: OutboundAnswer) {
        switch answer.status {
        case 200:
            self = Self.decode(answer.content).map { .receipt($0) } ?? .failed("no_receipt: the content is not Base64")
        case 304: self = .unchanged
        case 400: self = .malformed
        case 401: self = .tokenRefused
        case 404: self = .unknown
        case 429: self = .tooMany(retryAfter: answer.retryAfter)
        case 500...599: self = .failed("server_error: status \(answer.status)")
        // Redirects among them: nobody else is asked.
        default: self = .failed("unexpected_status: \(answer.status)")
        }
    }

    /// Base64, whatever white space is around it.
    private static func decode(_ content: [UInt8]) -> [UInt8]? {
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0d).contains(byte) }
        let text = content.drop(while: isBlank)
        guard let last = text.lastIndex(where: { !isBlank($0) }) else { return nil }
        return Data(base64Encoded: Data(text[...last])).map { [UInt8]($0) }
    }
}
