import HTTP
import Testing

/// The first bytes of a server that was not expected to speak HTTP/2.
@Suite("HTTP/2 detected where HTTP/1.1 is expected")
struct HTTP2BeginningTests {
    private static let settings = Frame(kind: .settings, payload: [0, 3, 0, 0, 0, 100])
    private static let goAway = Frame(kind: .goAway, payload: [0, 0, 0, 0, 0, 0, 0, 1])

    private func look(_ bytes: some Sequence<UInt8>) -> HTTP2Preface {
        let array = Array(bytes)
        return HTTP2Preface.look(at: array.span)
    }

    @Test("SETTINGS and GOAWAY of the connection are recognized by their header", arguments: [settings, goAway])
    func known(frame: Frame) {
        #expect(look([]) == .none)
        for count in 1..<9 { #expect(look(frame.bytes.prefix(count)) == .part, "\(count) octets") }
        for count in 9...frame.bytes.count { #expect(look(frame.bytes.prefix(count)) == .whole, "\(count) octets") }
    }

    @Test("the reserved bit of the stream is ignored")
    func reserved() {
        var bytes = Self.settings.bytes
        bytes[5] = 0x80
        #expect(look(bytes) == .whole)
    }

    @Test("other frames, other streams and HTTP responses are not recognized")
    func others() {
        for kind in [Frame.Kind.data, .headers, .reset, .ping, .windowUpdate, .unknown] {
            let bytes = Frame(kind: kind, payload: [0, 0, 0, 0]).bytes
            for count in 4...bytes.count { #expect(look(bytes.prefix(count)) == .none, "\(kind)") }
        }
        #expect(look(Frame(kind: .settings, stream: 1).bytes) == .none)
        #expect(look(Frame(kind: .goAway, stream: 1 << 24).bytes) == .none)
        #expect(look("HTTP/1.1 200 OK\r\n".utf8) == .none)
        #expect(look([0x15, 3, 1, 0, 2, 2, 70]) == .none)
    }
}
