internal import Bytes
internal import HTTP

/// The head of a response, but for the fields its exchange adds.
struct OutgoingHead {
    let status: UInt16
    let framing: ContentFraming
    /// Content-Length of a response without content (HEAD, 304).
    let statedLength: UInt64?
    let isPersistent: Bool
    let isAnswerToHead: Bool

    /// One access to the buffer for the whole head. - Returns: false if it does not fit; nothing was written then.
    func write(to output: inout ByteBuffer, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        let before = output.count
        output.appendStatusLine(status)
        fields(&output)
        switch framing {
        case .length(let length): output.appendField("Content-Length", decimal: length)
        case .chunked: output.appendField("Transfer-Encoding", "chunked")
        case .none:
            if let statedLength {
                output.appendField("Content-Length", decimal: statedLength)
            } else if status >= 200, status != 204, status != 304, !isAnswerToHead {
                // With HEAD it would tell the length of what GET is answered with, and nobody has stated that.
                output.appendField("Content-Length", decimal: 0)
            }
        case .untilClose: break
        }
        if !isPersistent { output.appendField("Connection", "close") }
        output.append("\r\n")
        guard output.overflowed else { return true }
        output.rollback(to: before)
        return false
    }
}
