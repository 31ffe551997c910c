internal import Bytes
internal import HTTP

/// The head of a response as an exchange wants it, but for the fields that it adds.
struct OutgoingHead {
    let status: UInt16
    let content: ContentFraming
    /// Content-Length of a response without content (HEAD, 304).
    let statedLength: UInt64?
    /// The connection takes no more requests after this response.
    let isLast: Bool

    /// The Content-Length to be sent; nil for none.
    ///
    /// - Parameter isAnswerToHead: then a length would be that of what GET is answered with, and nobody has stated that.
    func length(isAnswerToHead: Bool) -> UInt64? {
        switch content {
        case .length(let length): length
        case .chunked, .untilClose: nil
        case .none:
            if let statedLength {
                statedLength
            } else if status >= 200, status != 204, status != 304, !isAnswerToHead {
                0
            } else {
                nil
            }
        }
    }
}
