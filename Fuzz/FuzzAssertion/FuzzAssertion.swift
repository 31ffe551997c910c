import Attestation
import Encoding

/// libFuzzer's entry: assertions, authenticator data, and CBOR of any kind.
///
/// Properties: no reader traps; what it finds lies within the input, and is what stands there; what is accepted has one
/// spelling, so written again from what was read it is the input again; a beginning of what is accepted is refused.
///
/// The first byte of the input decides what the rest is read as.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzAssertion(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    switch data[0] % 3 {
    case 0: assertion(bytes)
    case 1: authenticatorData(bytes, in: 0..<bytes.count)
    default: item(bytes)
    }
    return 0
}

private func assertion(_ bytes: [UInt8]) {
    let span = bytes.span
    do throws(AssertionFault) {
        let found = try Assertion(span)
        precondition(bytes.count <= Assertion.lengthLimit)
        precondition(found.signature.lowerBound > 0 && found.signature.upperBound <= bytes.count)
        precondition(!found.signature.overlaps(found.authenticatorData.range))
        authenticatorData(bytes, in: found.authenticatorData.range)
        item(bytes)
    } catch {
        precondition(error.step == .form, "parsing found \(error)")
    }
}

private func authenticatorData(_ bytes: [UInt8], in range: Range<Int>) {
    let span = bytes.span
    do throws(AuthenticatorDataFault) {
        let found = try AuthenticatorData(assertion: span, in: range)
        precondition(found.range == range && range.count >= AuthenticatorData.fixedLength)
        precondition(found.rpIDHash.count == 32 && range.contains(found.rpIDHash.upperBound))
        precondition(found.flags == bytes[range.lowerBound + 32])
        let tail = (range.lowerBound + AuthenticatorData.fixedLength)..<range.upperBound
        if tail.isEmpty { precondition(found.extensions == AppExtensions()) } else { item(Array(bytes[tail])) }
        for part in [found.extensions.bundleVersion, found.extensions.codeDirectoryHash?.hash] {
            guard let part else { continue }
            precondition(part.lowerBound > tail.lowerBound && part.upperBound <= tail.upperBound)
        }
    } catch {
        precondition(range.count != AuthenticatorData.fixedLength, "the fixed part alone is refused: \(error)")
    }
}

/// One whole item: skipping and reading agree, and its encoding is the only one.
private func item(_ bytes: [UInt8]) {
    let span = bytes.span
    var read: [UInt8] = []
    var skipFault: CBORFault?
    var readFault: CBORFault?
    do throws(CBORFault) {
        var reader = CBORReader(span)
        try reader.skip()
        try reader.finish()
    } catch {
        skipFault = error
    }
    do throws(CBORFault) {
        var reader = CBORReader(span)
        try rewrite(&reader, bytes, depth: 0, into: &read)
        try reader.finish()
    } catch {
        readFault = error
    }
    guard readFault != .integerTooLarge else { return }
    precondition(
        skipFault == readFault, "skipped: \(String(describing: skipFault)), read: \(String(describing: readFault))")
    guard skipFault == nil else { return }
    precondition(read == bytes, "an encoding that is not the only one was accepted")
    var shorter = CBORReader(span, in: 0..<(bytes.count - 1))
    do throws(CBORFault) {
        try shorter.skip()
        preconditionFailure("a beginning was accepted")
    } catch {
        precondition(error == .truncated, "a beginning is \(error)")
    }
}

private func rewrite(
    _ reader: inout CBORReader, _ bytes: [UInt8], depth: Int, into output: inout [UInt8]
) throws(CBORFault) {
    guard depth < CBORReader.depthLimit else { throw .tooDeep }
    switch try reader.peek() {
    case .unsigned, .negative: write(try reader.readInteger(), into: &output)
    case .bytes: write(string: bytes[try reader.readBytes()], 2, into: &output)
    case .text: write(string: bytes[try reader.readText()], 3, into: &output)
    case .array:
        let count = try reader.beginArray()
        write(head: 4, UInt64(count), into: &output)
        for _ in 0..<count { try rewrite(&reader, bytes, depth: depth + 1, into: &output) }
    case .map:
        var map = try reader.beginMap()
        write(head: 5, UInt64(map.remaining), into: &output)
        while let key = try reader.nextKey(&map) {
            switch key {
            case .text(let range): write(string: bytes[range], 3, into: &output)
            case .integer(let value): write(value, into: &output)
            }
            try rewrite(&reader, bytes, depth: depth + 1, into: &output)
        }
    case .simple:
        output.append(bytes[reader.position])
        try reader.skip()
    }
}

private func write(_ value: Int64, into output: inout [UInt8]) {
    write(head: value < 0 ? 1 : 0, UInt64(bitPattern: value < 0 ? ~value : value), into: &output)
}

private func write(string: ArraySlice<UInt8>, _ majorType: UInt8, into output: inout [UInt8]) {
    write(head: majorType, UInt64(string.count), into: &output)
    output += string
}

private func write(head majorType: UInt8, _ argument: UInt64, into output: inout [UInt8]) {
    let widths: [(bytes: Int, below: UInt64, information: UInt8)] = [
        (1, 0x100, 24), (2, 0x1_0000, 25), (4, 0x1_0000_0000, 26), (8, .max, 27),
    ]
    guard argument >= 24 else {
        output.append(majorType << 5 | UInt8(argument))
        return
    }
    // The last row takes what no other does.
    let width = widths.first { argument < $0.below } ?? (8, .max, 27)
    output.append(majorType << 5 | width.information)
    for index in (0..<width.bytes).reversed() {
        output.append(UInt8(truncatingIfNeeded: argument >> UInt64(8 * index)))
    }
}
