import Attestation
import Cryptography
import Encoding

/// libFuzzer's entry: receipts, their payloads, DER and times.
///
/// Properties: nothing traps; what is found lies within the input; a verifier that makes all checks and one that stops at the
/// first refusal agree; nothing that Apple did not sign is accepted.
///
/// The first byte of the input decides what the rest is read as.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzReceipt(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    switch data[0] % 4 {
    case 0: verification(bytes)
    case 1: payload(bytes)
    case 2: items(bytes)
    default: time(bytes)
    }
    return 0
}

/// Kept from one input to the next. libFuzzer has one thread.
nonisolated(unsafe) private let verifier: ReceiptVerifier = {
    do {
        let library = try LibraryContext()
        return ReceiptVerifier(root: try AppleRoots.receipts(library), library)
    } catch {
        fatalError("\(error)")
    }
}()

private func verification(_ bytes: [UInt8]) {
    let expectation = ReceiptExpectation(appID: "TEAM123456.com.example.app", publicKey: [])
    let report = verifier.report(bytes, expectation, at: 1_790_000_000)
    precondition(report.verified == nil, "accepted what Apple did not sign")
    do throws(ReceiptFault) {
        _ = try verifier.verify(bytes, expectation, at: 1_790_000_000)
        preconditionFailure("accepted what Apple did not sign")
    } catch {
        let first = report.steps.compactMap(\.outcome.fault).first
        precondition(error == first, "\(error) first, \(String(describing: first)) of all")
        precondition(!error.reason.isEmpty)
    }
}

private func payload(_ bytes: [UInt8]) {
    let span = bytes.span
    do throws(ReceiptFault) {
        let fields = try ReceiptFields(span)
        precondition(fields.certificate.count + fields.clientDataHash.count + fields.appID.utf8.count <= bytes.count)
        precondition(fields.creation.milliseconds >= 0 || fields.creation.seconds > -100_000)
    } catch {
        precondition(error.step == .form, "parsing found \(error)")
    }
}

/// One item behind the other: each lies behind the one before, and all of them fill the input or end in a fault.
private func items(_ bytes: [UInt8]) {
    let span = bytes.span
    var reader = DERReader(span)
    var end = 0
    do throws(DERFault) {
        while !reader.isAtEnd {
            let (_, content) = try reader.next()
            precondition(content.lowerBound >= end + 2 && content.upperBound <= bytes.count)
            precondition(reader.position == content.upperBound)
            end = content.upperBound
        }
        try reader.finish()
        precondition(end == bytes.count)
    } catch {
        precondition(error != .trailingBytes)
    }
}

/// What is read is written so that it is read again.
private func time(_ bytes: [UInt8]) {
    guard let time = InternetTime(bytes.span) else { return }
    precondition(InternetTime(seconds: time.seconds).milliseconds <= time.milliseconds)
    if time.seconds >= 0, time.seconds < 253_402_300_800 {
        precondition(InternetTime(time.description)?.seconds == time.seconds, "\(time)")
    }
}
