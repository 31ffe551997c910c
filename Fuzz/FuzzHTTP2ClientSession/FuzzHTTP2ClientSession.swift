import HTTP

/// libFuzzer's entry: what a server sends on a connection of HTTP/2 on which a few requests were made.
///
/// Properties: nothing traps; cut anywhere, the streams have the same events; each hears of one end and nothing after it;
/// a response that is complete for who takes all of it at once is so for who takes it later, even after the connection; a
/// head that is delivered is one that HTTP/1.1's parser takes for the same; what streams hold is given back.
///
/// The first byte of the input decides where it is cut, the second what the streams do.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHTTP2ClientSession(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 2 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 2, count: count - 2))
    let manners = CallerManners(data[1])
    let step = max(1, Int(data[0]) % 64)

    // What is written, and when, changes what is open when the next frame comes: so nothing is until the end.
    let whole = AskedConnection.ask(bytes, inStepsOf: bytes.count, manners, writesBetween: false)
    let pieces = AskedConnection.ask(bytes, inStepsOf: step, manners, writesBetween: false)
    precondition(whole == pieces || pieces.ends(before: whole), "a cut changes the outcome: \(whole) against \(pieces)")
    _ = AskedConnection.ask(bytes, inStepsOf: step, manners, writesBetween: true)

    var greedy = manners
    greedy.appetite = .max
    let taken = AskedConnection.ask(bytes, inStepsOf: bytes.count, greedy, writesBetween: false)
    if whole.fault == taken.fault {
        let lost = taken.completed.subtracting(whole.completed).subtracting(whole.overrun)
        precondition(lost.isEmpty, "\(lost) of \(taken) are not complete when they are taken later: \(whole)")
    }
    return 0
}
