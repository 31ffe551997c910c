import Bytes
import HTTP
import Testing

@Suite("Writing messages")
struct MessageWriterTests {
    @Test("a chunk is its size, its data and two line ends")
    func chunk() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        let data = Array("hello".utf8)
        #expect(buffer.appendChunk(prefixOf: data.span) == 5)
        let isEnded = buffer.appendLastChunk()
        #expect(isEnded)
        #expect(String(decoding: buffer.copy(), as: UTF8.self) == "5\r\nhello\r\n0\r\n\r\n")
    }

    @Test("a chunk larger than the room is cut and decodes to what was taken")
    func cutChunk() throws {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        let data = [UInt8](repeating: 0x61, count: 5_000)
        let taken = buffer.appendChunk(prefixOf: data.span)
        #expect(taken > 900 && taken < 1024)
        #expect(buffer.overflowed == false)
        #expect(buffer.appendChunk(prefixOf: data.span) == 0)
        let decoded = try Parsing.content([String(decoding: buffer.copy(), as: UTF8.self)], .chunked).get()
        #expect(decoded.content.utf8.count == taken)
    }

    @Test("a withheld byte leads its chunk, and no empty chunk is written: it would be the last")
    func leadingByte() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        let data = Array("ello".utf8)
        let nothing: [UInt8] = []
        buffer.appendChunk(UInt8(ascii: "h"), data.span)
        buffer.appendChunk(nil, nothing.span)
        buffer.appendChunk(UInt8(ascii: "!"), nothing.span)
        #expect(String(decoding: buffer.copy(), as: UTF8.self) == "5\r\nhello\r\n1\r\n!\r\n")
    }

    @Test("a parsed field is written in canonical form, whatever its spelling")
    func parsedFields() throws {
        let bytes = Array("HTTP/1.1 200 OK\r\nA: b\r\nC:d\r\nE:  f \t\r\nG: \r\nH:\r\nI:\tj\r\nK: l: m\r\n\r\n".utf8)
        var parser = ResponseHeadParser(limits: .standard)
        var head = ResponseHead()
        guard case .complete = try parser.parse(bytes.span, answering: .get, into: &head) else {
            Issue.record("the head is complete")
            return
        }
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        for field in head.fields { buffer.appendField(field, of: bytes.span) }
        #expect(
            String(decoding: buffer.copy(), as: UTF8.self)
                == "A: b\r\nC: d\r\nE: f\r\nG: \r\nH: \r\nI: j\r\nK: l: m\r\n")
    }
}
