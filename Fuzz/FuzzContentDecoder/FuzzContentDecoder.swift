import HTTP

/// libFuzzer's entry: the content of messages, as requests (strict) and as responses (chunk extensions read over).
///
/// Properties: the decoder never traps, and no step says more than is there; however the bytes are cut, and however little
/// of each piece of content is taken at once, the content is the same and ends at the same octet; a length is kept exactly;
/// behind the end there is nothing; chunks mean what they mean to a reader that is written for nothing but being obvious.
///
/// The first byte of the input says how the content is framed, the second how it is cut.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzContentDecoder(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 2 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 2, count: count - 2))
    let extensions: ContentDecoder.ChunkExtensions = data[0] & 1 == 0 ? .refused : .ignored
    let framing: ContentFraming =
        switch data[0] >> 1 & 7 {
        case 0: .none
        case 1: .length(UInt64(data[0] >> 4) + 1)
        case 2: .untilClose
        default: .chunked
        }

    let whole = decode(bytes, framing, extensions, Cuts.none)
    let pieces = decode(bytes, framing, extensions, Cuts(seed: data[1]))
    precondition(whole == pieces, "a cut changes the outcome: \(whole) against \(pieces)")
    precondition(whole.content.count <= bytes.count)
    check(whole, framing, bytes)
    if framing == .chunked {
        let reference = ChunkedReference.read(bytes, allowsExtensions: extensions == .ignored)
        precondition(reference.admits(whole), "\(whole) where \(reference) was to be expected")
    }
    return 0
}

private func check(_ outcome: Outcome, _ framing: ContentFraming, _ bytes: [UInt8]) {
    switch framing {
    case .none: precondition(outcome == Outcome(content: [], end: .ended(at: 0)))
    case .length(let length):
        let length = Int(length)
        precondition(outcome.content == Array(bytes.prefix(length)))
        precondition(outcome.end == (bytes.count < length ? .open : .ended(at: length)))
    case .untilClose: precondition(outcome == Outcome(content: bytes, end: .open))
    case .chunked: break
    }
}

struct Outcome: Equatable {
    enum End: Equatable {
        case open
        case ended(at: Int)
        case refused
    }

    var content: [UInt8]
    var end: End
}

/// How many bytes come at once, and how many of them are taken: a sequence that a byte of the input begins.
private struct Cuts {
    private var state: UInt32
    private let isCut: Bool

    static let none = Cuts()

    private init() {
        state = 0
        isCut = false
    }

    init(seed: UInt8) {
        state = UInt32(seed)
        isCut = true
    }

    /// - Returns: 1 to `limit`.
    mutating func next(_ limit: Int) -> Int {
        guard isCut, limit > 1 else { return limit }
        state = state &* 1_664_525 &+ 1_013_904_223
        return min(limit, 1 + Int(state >> 24) % 9)
    }
}

private func decode(
    _ bytes: [UInt8], _ framing: ContentFraming, _ extensions: ContentDecoder.ChunkExtensions, _ cuts: Cuts
) -> Outcome {
    var cuts = cuts
    var decoder = ContentDecoder(framing, extensions: extensions)
    var content: [UInt8] = []
    var position = 0
    var end = 0
    do throws(MessageFault) {
        while true {
            switch try decoder.next(bytes.span.extracting(position..<end)) {
            case .needMore:
                guard end < bytes.count else { return Outcome(content: content, end: .open) }
                end += cuts.next(bytes.count - end)
            case .framing(let count):
                precondition(count > 0 && position + count <= end)
                position += count
            case .content(let count):
                precondition(count > 0 && position + count <= end)
                if let remaining = decoder.remaining { precondition(UInt64(count) <= remaining) }
                let taken = cuts.next(count)
                content += bytes[position..<(position + taken)]
                position += taken
                decoder.consumed(taken)
            case .end:
                precondition(decoder.isAtEnd && decoder.remaining == 0)
                let rest = try decoder.next(bytes.span.extracting(position...))
                precondition(rest == .end)
                return Outcome(content: content, end: .ended(at: position))
            }
        }
    } catch {
        return Outcome(content: content, end: .refused)
    }
}
