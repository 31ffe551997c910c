import HTTP

/// libFuzzer's entry: response heads of upstreams, and the content behind them.
///
/// Properties: the parser never traps, and a head that comes in pieces has the outcome of one that comes at once.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzResponseHead(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    let step = max(1, Int(data[0]) % 32)
    let method: Method = data[0] & 0x80 != 0 ? .head : .get
    let whole = outcome(bytes, method, inStepsOf: bytes.count)
    let pieces = outcome(bytes, method, inStepsOf: step)
    // A refusal may name another fault when it is found earlier, at a limit.
    precondition(whole == pieces || whole == refused && pieces == refused, "cut: \(whole) against \(pieces)")
    return 0
}

private func outcome(_ bytes: [UInt8], _ method: Method, inStepsOf step: Int) -> String {
    var parser = ResponseHeadParser(limits: HeadLimits(bytes: 2_048, target: 512, fields: 32))
    var head = ResponseHead()
    var end = 0
    while end < bytes.count {
        end = min(end + step, bytes.count)
        do throws(MessageFault) {
            let seen = bytes.span.extracting(first: end)
            if case .complete(let length) = try parser.parse(seen, answering: method, into: &head) {
                precondition((100...599).contains(head.status))
                return "\(length) \(head.status) \(head.framing) \(head.isPersistent) "
                    + decode(head.framing, bytes, from: length)
            }
        } catch {
            return refused
        }
    }
    return "incomplete"
}

private let refused = "refused"

private func decode(_ framing: ContentFraming, _ bytes: [UInt8], from start: Int) -> String {
    var decoder = ContentDecoder(framing, extensions: .ignored)
    var position = start
    do throws(MessageFault) {
        while true {
            switch try decoder.next(bytes.span.extracting(position...)) {
            case .needMore: return "open at \(position)"
            case .end: return "ended at \(position)"
            case .framing(let count): position += count
            case .content(let count):
                position += count
                decoder.consumed(count)
            }
        }
    } catch {
        return "\(error)"
    }
}
