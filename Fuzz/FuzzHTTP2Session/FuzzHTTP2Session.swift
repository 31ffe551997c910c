import HTTP

/// libFuzzer's entry: what a client sends on a connection of HTTP/2 behind the preface.
///
/// Properties: nothing traps; cut anywhere, the streams have the same events; a head that is delivered is one that
/// HTTP/1.1's parser takes for the same; what streams hold is given back.
///
/// The first byte of the input decides where it is cut, the second what the streams do.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHTTP2Session(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 2 else { return 0 }
    let bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + UnsafeBufferPointer(start: data + 2, count: count - 2)
    let manners = Manners(data[1])
    let step = max(1, Int(data[0]) % 64)

    // What is written, and when, changes what is open when the next frame comes: so nothing is until the end.
    let whole = ServedConnection.serve(bytes, inStepsOf: bytes.count, manners, writesBetween: false)
    let pieces = ServedConnection.serve(bytes, inStepsOf: step, manners, writesBetween: false)
    precondition(
        whole == pieces || pieces.exceeds(before: whole), "a cut changes the outcome: \(whole) against \(pieces)")
    _ = ServedConnection.serve(bytes, inStepsOf: step, manners, writesBetween: true)
    return 0
}
