/// The chunked coding of RFC 9112 section 7.1 as a reader of whole lines would have it: what the decoder is compared with.
enum ChunkedReference {
    enum Reading {
        case ended(content: [UInt8], at: Int)
        /// A complete line, or the octets behind a chunk, are wrong.
        case refused(content: [UInt8])
        /// The rest is no complete line: it may be wrong already, or may not.
        case open(content: [UInt8])

        func admits(_ outcome: Outcome) -> Bool {
            switch self {
            case .ended(let content, let position): outcome == Outcome(content: content, end: .ended(at: position))
            case .refused(let content): outcome == Outcome(content: content, end: .refused)
            case .open(let content):
                outcome == Outcome(content: content, end: .open) || outcome == Outcome(content: content, end: .refused)
            }
        }
    }

    static func read(_ bytes: [UInt8], allowsExtensions: Bool) -> Reading {
        var content: [UInt8] = []
        var position = 0
        while true {
            guard let line = line(bytes, position) else { return .open(content: content) }
            guard let size = size(line, allowsExtensions) else { return .refused(content: content) }
            position += line.count + 2
            if size == 0 { break }
            let available = min(size, bytes.count - position)
            content += bytes[position..<(position + available)]
            position += available
            let end = bytes[position...].prefix(2)
            guard end.elementsEqual(lineEnd.prefix(end.count)) else { return .refused(content: content) }
            guard end.count == 2 else { return .open(content: content) }
            position += 2
        }
        let trailers = position
        while true {
            guard let line = line(bytes, position) else { return .open(content: content) }
            position += line.count + 2
            guard position - trailers <= 4_096 else { return .refused(content: content) }
            if line.isEmpty { return .ended(content: content, at: position) }
            guard position - trailers < 4_096, isTrailer(line) else { return .refused(content: content) }
        }
    }

    private static let lineEnd: [UInt8] = [0x0d, 0x0a]

    /// Up to the next CR LF, without it.
    private static func line(_ bytes: [UInt8], _ start: Int) -> [UInt8]? {
        var index = start
        while index + 1 < bytes.count {
            if bytes[index] == 0x0d, bytes[index + 1] == 0x0a { return Array(bytes[start..<index]) }
            index += 1
        }
        return nil
    }

    private static func size(_ line: [UInt8], _ allowsExtensions: Bool) -> Int? {
        let parts = line.split(separator: UInt8(ascii: ";"), maxSplits: 1, omittingEmptySubsequences: false)
        let digits = String(decoding: parts[0], as: UTF8.self)
        guard (1...15).contains(parts[0].count), digits.utf8.allSatisfy({ "0123456789abcdefABCDEF".utf8.contains($0) })
        else { return nil }
        if parts.count > 1 {
            guard allowsExtensions, line.count <= 256, !parts[1].contains(0x0a), !parts[1].contains(0x0d) else {
                return nil
            }
        }
        return Int(digits, radix: 16)
    }

    private static func isTrailer(_ line: [UInt8]) -> Bool {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > 0 else { return false }
        let name = String(decoding: line[..<colon], as: UTF8.self)
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
        let isName = line[..<colon].allSatisfy { letters.utf8.contains($0) }
        let isValue = line[(colon + 1)...].allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 }
        return isName && isValue && !["host", "content-length", "transfer-encoding"].contains(name.lowercased())
    }
}
