import HTTP

/// libFuzzer's entry: request heads, and the content behind them.
///
/// Properties: the parser never traps; a head that comes in pieces has the outcome of one that comes at once; what it
/// accepts holds no line end, NUL or second spelling, unless that is admitted; no reading of the path climbs; content
/// decodes the same in pieces as at once.
///
/// The first byte of the input decides where it is cut, and which forms of targets are admitted.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzRequestHead(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    let step = max(1, Int(data[0]) % 32)

    let bits = data[0] >> 5
    var forms: TargetForms = bits & 1 == 0 ? [] : .common
    if bits & 2 != 0 { forms.formUnion([.semicolon, .encodedSemicolon]) }
    if bits & 4 != 0 { forms.insert(.encodedSlash) }

    let whole = outcome(bytes, inStepsOf: bytes.count, admitting: forms)
    let pieces = outcome(bytes, inStepsOf: step, admitting: forms)
    precondition(agree(whole, pieces), "a cut changes the outcome: \(whole) against \(pieces)")
    return 0
}

/// What is accepted must be accepted alike. A refusal may name another fault, or come only with the end of the line, since
/// a line that came in part is looked at again when its end is there.
private func agree(_ whole: Outcome, _ pieces: Outcome) -> Bool {
    switch (whole, pieces) {
    case (.refused, .refused), (.refused, .incomplete): true
    default: whole == pieces
    }
}

private enum Outcome: Equatable {
    case incomplete
    case refused(MessageFault)
    case complete(length: Int, content: [UInt8], end: End)

    enum End: Equatable {
        case open
        case ended(rest: Int)
        /// By which fault does not count: too long a trailer may be malformed as well.
        case broken
    }
}

private func outcome(_ bytes: [UInt8], inStepsOf step: Int, admitting forms: TargetForms) -> Outcome {
    var parser = RequestHeadParser(limits: HeadLimits(bytes: 2_048, target: 512, fields: 32, targetForms: forms))
    var head = RequestHead()
    var end = 0
    while end < bytes.count {
        end = min(end + step, bytes.count)
        do throws(MessageFault) {
            if case .complete(let length) = try parser.parse(bytes.span.extracting(first: end), into: &head) {
                check(head, bytes, length)
                precondition(head.targetForms.isSubset(of: forms))
                checkReadings(of: head, bytes)
                return decode(head, bytes, from: length, inStepsOf: step)
            }
        } catch {
            return .refused(error)
        }
    }
    return .incomplete
}

private func check(_ head: RequestHead, _ bytes: [UInt8], _ length: Int) {
    precondition(length <= 2_048 && length <= bytes.count)
    precondition(bytes[(length - 4)..<length].elementsEqual([0x0d, 0x0a, 0x0d, 0x0a]))
    precondition(head.fields.count <= 32)
    for field in head.fields {
        for byte in bytes[field.nameRange.start..<field.nameRange.end] {
            precondition(byte == UInt8(ascii: "-") || byte &- 0x30 < 10 || (byte | 0x20) &- 0x61 < 26)
        }
        for byte in bytes[field.valueRange.start..<field.valueRange.end] {
            precondition(byte == 0x09 || byte >= 0x20 && byte != 0x7f)
        }
    }
    let path = bytes[head.path.start..<head.path.end]
    precondition(path.first == UInt8(ascii: "/"))
    precondition(!path.contains(UInt8(ascii: "\\")))
    precondition(head.targetForms.contains(.semicolon) == path.contains(UInt8(ascii: ";")))
    precondition(!head.host.isEmpty && head.host.count <= head.authority.count)
}

private func checkReadings(of head: RequestHead, _ bytes: [UInt8]) {
    let readings = TargetSpelling.readings(of: head.path.of(bytes.span), with: head.targetForms)
    for reading in readings + [Array(bytes[head.path.start..<head.path.end])] {
        let segments = reading.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (place, segment) in segments.enumerated() {
            precondition(!segment.isEmpty || place == segments.count - 1)
            precondition(segment.count > 2 || segment.isEmpty || !segment.allSatisfy { $0 == UInt8(ascii: ".") })
        }
    }
}

private func decode(_ head: RequestHead, _ bytes: [UInt8], from start: Int, inStepsOf step: Int) -> Outcome {
    var decoder = ContentDecoder(head.framing, extensions: .refused)
    var content: [UInt8] = []
    var position = start
    var end = start
    while true {
        do throws(MessageFault) {
            var isStuck = false
            while !isStuck {
                switch try decoder.next(bytes.span.extracting(position..<end)) {
                case .needMore: isStuck = true
                case .framing(let count): position += count
                case .content(let count):
                    content += bytes[position..<(position + count)]
                    position += count
                    decoder.consumed(count)
                case .end:
                    return .complete(length: start, content: content, end: .ended(rest: position))
                }
                precondition(position <= end)
            }
        } catch {
            return .complete(length: start, content: content, end: .broken)
        }
        guard end < bytes.count else { return .complete(length: start, content: content, end: .open) }
        end = min(end + step, bytes.count)
    }
}
