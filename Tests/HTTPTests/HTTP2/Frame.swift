/// A frame of HTTP/2 in its wire format, for clients that behave as no library does.
struct Frame: Equatable, CustomStringConvertible {
    enum Kind: UInt8 {
        case data, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
        case unknown = 0xbb
    }

    static let endStream: UInt8 = 0x1
    static let acknowledgement: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4
    static let padded: UInt8 = 0x8
    static let priorities: UInt8 = 0x20

    var kind: Kind
    var flags: UInt8 = 0
    var stream: UInt32 = 0
    var payload: [UInt8] = []

    var bytes: [UInt8] { Self.header(payload.count, kind.rawValue, flags, stream) + payload }

    static func header(_ length: Int, _ kind: UInt8, _ flags: UInt8, _ stream: UInt32) -> [UInt8] {
        [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), kind, flags] + octets(stream)
    }

    static func octets(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    /// Returns the number in four bytes of the payload: an error code, an increment.
    func number(at offset: Int = 0) -> UInt32 {
        payload[offset..<(offset + 4)].reduce(0) { $0 << 8 | UInt32($1) }
    }

    var endsStream: Bool { flags & Self.endStream != 0 }

    var description: String { "\(kind) flags \(flags) stream \(stream) of \(payload.count)" }
}

extension Frame {
    static func data(_ stream: UInt32, _ content: String = "", end: Bool = false) -> Frame {
        Frame(kind: .data, flags: end ? endStream : 0, stream: stream, payload: Array(content.utf8))
    }

    static func headers(_ stream: UInt32, _ fields: [(String, String)], end: Bool = true) -> Frame {
        Frame(
            kind: .headers, flags: endHeaders | (end ? endStream : 0), stream: stream, payload: HPACK.literals(fields))
    }

    static func get(_ stream: UInt32, _ path: String = "/", _ fields: [(String, String)] = []) -> Frame {
        headers(stream, HPACK.request("GET", path) + fields)
    }

    static func post(_ stream: UInt32, _ fields: [(String, String)] = []) -> Frame {
        headers(stream, HPACK.request("POST", "/") + fields, end: false)
    }

    static func reset(_ stream: UInt32, _ code: UInt32 = 8) -> Frame {
        Frame(kind: .reset, stream: stream, payload: octets(code))
    }

    static func windowUpdate(_ stream: UInt32, _ increment: UInt32) -> Frame {
        Frame(kind: .windowUpdate, stream: stream, payload: octets(increment))
    }

    static func settings(_ entries: [(UInt16, UInt32)] = []) -> Frame {
        Frame(
            kind: .settings,
            payload: entries.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 0xff)] + octets($0.1) })
    }

    static let settingsAcknowledgement = Frame(kind: .settings, flags: acknowledgement)
    static let ping = Frame(kind: .ping, payload: Array("12345678".utf8))
}

/// The simplest form of header compression (RFC 7541).
enum HPACK {
    static func request(_ method: String, _ path: String) -> [(String, String)] {
        [(":method", method), (":scheme", "https"), (":authority", "health.example"), (":path", path)]
    }

    /// Returns literals without indexing, with new names.
    static func literals(_ fields: [(String, String)]) -> [UInt8] {
        fields.flatMap { [0] + string($0.0) + string($0.1) }
    }

    /// Returns a string. Bytes above 0x7f are given as the characters of Latin-1.
    static func string(_ text: String) -> [UInt8] {
        let bytes = text.unicodeScalars.map { UInt8($0.value) }
        return integer(bytes.count, prefix: 7) + bytes
    }

    static func integer(_ number: Int, prefix: Int, pattern: UInt8 = 0) -> [UInt8] {
        let most = 1 << prefix - 1
        guard number >= most else { return [pattern | UInt8(number)] }
        var rest = number - most
        var made = [pattern | UInt8(most)]
        while rest >= 128 {
            made.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        return made + [UInt8(rest)]
    }
}
