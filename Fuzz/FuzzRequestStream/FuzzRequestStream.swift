import HTTP

/// libFuzzer's entry: the bytes of a whole connection, requests behind one another with their content.
///
/// Properties: nothing traps; cut anywhere, the same requests are found, and the end is the same; where one request ends,
/// the next begins, and no octet is taken for both; each request, rewritten as the gateway does, is read as the same.
///
/// The first byte of the input decides where it is cut.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzRequestStream(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    let whole = RequestStream.read(bytes, inStepsOf: bytes.count)
    for step in [1, max(2, Int(data[0]) % 64)] {
        let pieces = RequestStream.read(bytes, inStepsOf: step)
        precondition(agree(whole, pieces), "a cut changes the outcome: \(whole) against \(pieces)")
    }
    for request in whole.requests {
        // A rewritten head may be longer: spaces behind the colons, and an authority that stood in the target.
        let again = RequestStream.read(request.rewritten, inStepsOf: request.rewritten.count, headLimit: 16_384)
        precondition(
            again.requests == [request] && again.end == .open,
            "rewritten, \(request) is read as \(again.requests), \(again.end)")
    }
    return 0
}

/// A refusal may come only with the end of a line, since a line that came in part is looked at again when its end is there.
private func agree(_ whole: RequestStream, _ pieces: RequestStream) -> Bool {
    guard whole.requests == pieces.requests else { return false }
    return whole.end == pieces.end || whole.end == .refused && pieces.end == .open
}
