import HTTP
import Testing

/// Blocks of fields that never end, or that decode to many times their size.
@Suite("HTTP/2 server: header block attacks")
struct HTTP2HeaderAttackTests {
    @Test(
        "a flood of CONTINUATION, empty or full, ends the connection (CVE-2024-28182)", arguments: [0, 1, 12_000])
    func continuations(size: Int) {
        let peer = HTTP2Peer()
        peer.send(Frame(kind: .headers, stream: 1, payload: HPACK.literals(HPACK.request("GET", "/"))))
        let piece = HPACK.literals([("x", String(repeating: "a", count: size))])
        let rounds = peer.attack { _ in
            [Frame(kind: .continuation, stream: 1, payload: size == 0 ? [] : piece)]
        }
        #expect(rounds <= 8)
        #expect(peer.record.events.isEmpty)
        peer.expectCalm(size == 12_000 ? .headerBlock : .continuations)
    }

    @Test("a header block larger than any admitted head ends the connection")
    func headerBlock() {
        var limits = HTTP2Limits()
        limits.headerBlock = 20_000
        let peer = HTTP2Peer(limits)
        peer.send(
            Frame(
                kind: .headers, stream: 1,
                payload: HPACK.literals([("x", String(repeating: "a", count: 16_000))])),
            Frame(
                kind: .continuation, stream: 1,
                payload: HPACK.literals([("x", String(repeating: "a", count: 4_000))])))
        peer.expectCalm(.headerBlock)
    }

    @Test("an HPACK bomb of bytes that each decode to a large field ends the connection")
    func bomb() {
        let peer = HTTP2Peer()
        // One field of 4,000 bytes for the table, then 60 references to it, of one byte each.
        let bomb =
            HPACK.literals(HPACK.request("GET", "/")) + [0x40] + HPACK.string("x")
            + HPACK.string(String(repeating: "a", count: 4000)) + [UInt8](repeating: 0xbe, count: 60)
        peer.send(
            Frame(kind: .headers, flags: Frame.endHeaders | Frame.endStream, stream: 1, payload: bomb))
        #expect(peer.record.events.isEmpty)
        peer.expectCalm(.headerList)
    }

    @Test("a dynamic table larger than offered ends the connection")
    func table() {
        let peer = HTTP2Peer()
        let payload =
            HPACK.integer(65_536, prefix: 5, pattern: 0x20) + HPACK.literals(HPACK.request("GET", "/"))
        peer.send(
            Frame(kind: .headers, flags: Frame.endHeaders | Frame.endStream, stream: 1, payload: payload))
        _ = peer.frames()
        #expect(peer.fault == .violation(.compressionError))
    }
}
