import EventLoop
import Server

/// libFuzzer's entry: PROXY headers of both versions.
///
/// Properties: the parser never traps; a header that comes in pieces has the outcome of one that comes at once, for the bytes
/// in front of it are taken from the socket as soon as they are known to be its own; it ends within what there is and within
/// its bound; whatever follows it changes nothing; an address that it names has a text.
///
/// The first byte of the input decides where it is cut.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzProxyHeader(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    let step = max(1, Int(data[0]) % 32)

    let whole = outcome(bytes, inStepsOf: bytes.count)
    precondition(whole == outcome(bytes, inStepsOf: step), "a cut changes the outcome: \(whole)")
    precondition(whole == .incomplete || whole == outcome(bytes + [0x16, 0x03, 0x01], inStepsOf: bytes.count + 3))
    if case .complete(let length, _) = whole {
        precondition(outcome(Array(bytes[..<length]), inStepsOf: length) == whole)
        precondition(outcome(Array(bytes[..<(length - 1)]), inStepsOf: length) == .incomplete)
    }
    return 0
}

private enum Outcome: Equatable {
    case incomplete
    /// For whatever reason: one that is known early may be another than that of the whole.
    case refused
    case complete(length: Int, source: String?)
}

private func outcome(_ bytes: [UInt8], inStepsOf step: Int) -> Outcome {
    var end = 0
    while end < bytes.count {
        end = min(end + step, bytes.count)
        do throws(ProxyHeaderFault) {
            guard let header = try ProxyHeader.parse(bytes.span.extracting(first: end)) else {
                precondition(end < ProxyHeader.longest, "no end in sight")
                continue
            }
            precondition(header.length <= end && header.length <= ProxyHeader.longest)
            let source = header.source?.description
            precondition(source?.contains("?") != true)
            return .complete(length: header.length, source: source)
        } catch {
            return .refused
        }
    }
    return .incomplete
}
