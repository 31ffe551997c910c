import Bytes
import Testing

@Suite("Byte buffers")
struct ByteBufferTests {
    private func text(_ buffer: borrowing ByteBuffer) -> String { String(decoding: buffer.copy(), as: UTF8.self) }

    @Test("bytes leave in the order they came")
    func order() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.append("hello ")
        buffer.append([0x77, 0x6f])
        buffer.append("rld" as String)
        buffer.consume(6)
        #expect(text(buffer) == "world")
    }

    @Test("texts, bytes and numbers appended together are all written in order, or not at all")
    func texts() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        let value = Array("value".utf8)
        buffer.append("Name", ": ", value.span, "\r\n")
        buffer.append("Other", ": ")
        buffer.append("x-", sixteen: 0x0123_4567_89ab_cdef)
        #expect(text(buffer) == "Name: value\r\nOther: x-0123456789abcdef")
        buffer.append([UInt8](repeating: 0x20, count: buffer.room - 5))
        let before = buffer.count
        buffer.append("", "", value.span, "!")
        buffer.append("four", "ty")
        buffer.append("", sixteen: 1)
        #expect(buffer.overflowed == true)
        #expect(buffer.count == before)
        buffer.append("", "", value.span, "")
        #expect(buffer.room == 0)
    }

    @Test("the room of consumed bytes is used for an append that does not fit behind the rest")
    func roomBefore() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.append([UInt8](repeating: 0x61, count: 1_000))
        buffer.consume(995)
        buffer.append([UInt8](repeating: 0x62, count: 20))
        buffer.append([UInt8](repeating: 0x63, count: 100))
        #expect(text(buffer) == "aaaaa" + String(repeating: "b", count: 20) + String(repeating: "c", count: 100))
        #expect(buffer.overflowed == false)
    }

    @Test("an append that does not fit writes nothing and marks the buffer until the rollback")
    func overflow() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.append("kept")
        let before = buffer.count
        buffer.append("head")
        buffer.append([UInt8](repeating: 0, count: 2_000))
        #expect(buffer.overflowed == true)
        buffer.rollback(to: before)
        #expect(buffer.overflowed == false)
        #expect(text(buffer) == "kept")
    }

    @Test("pieces are appended all together or not at all")
    func pieces() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        let (name, value): ([UInt8], [UInt8]) = (Array("Accept".utf8), [UInt8](repeating: 0x78, count: 1_000))
        buffer.append(name.span, ": ", value.span, "\r\n")
        #expect(buffer.count == 1_010)
        #expect(text(buffer).hasPrefix("Accept: xxx") && text(buffer).hasSuffix("xxx\r\n"))
        // Fourteen bytes are left: the name and the value fit, but not the line end behind them.
        buffer.append(name.span, ": ", name.span, "\r\n")
        #expect(buffer.overflowed == true)
        #expect(buffer.count == 1_010)
        buffer.rollback(to: 0)
        buffer.append(name.span, "\r\n")
        #expect(text(buffer) == "Accept\r\n")
        let nothing: [UInt8] = []
        buffer.append(nothing.span, "")
        #expect(buffer.count == 8 && buffer.overflowed == false)
    }

    @Test("the room of consumed bytes is used again")
    func compaction() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        for round in 0..<100 {
            let block = [UInt8](repeating: UInt8(round), count: 700)
            buffer.append(block)
            #expect(buffer.overflowed == false)
            #expect(buffer.copy() == block)
            buffer.consume(600)
            buffer.append([1, 2, 3])
            buffer.consume(103)
        }
    }

    @Test("an empty buffer holds no block")
    func release() {
        let pool = BufferPool(blockSize: 1024)
        var buffer = ByteBuffer(pool: pool)
        #expect(pool.outstanding == 0)
        buffer.append("x")
        #expect(pool.outstanding == 1)
        buffer.consume(1)
        buffer.releaseIfEmpty()
        #expect(pool.outstanding == 0)
    }

    @Test("a dropped buffer returns its block")
    func drop() {
        let pool = BufferPool(blockSize: 1024)
        do {
            var buffer = ByteBuffer(pool: pool)
            buffer.append("x")
            #expect(pool.outstanding == 1)
        }
        #expect(pool.outstanding == 0)
    }

    @Test(
        "numbers are written without leading zeros, or padded as asked",
        arguments: [0, 7, 9, 10, 99, 100, 0x9f, 4_095, 4_096, 0xdead_beef, 0x1234_5678_9abc_def0, UInt64.max])
    func numbers(_ number: UInt64) {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.append(decimal: number)
        buffer.append(" ")
        buffer.append(hex: number)
        buffer.append(" ")
        buffer.append(hex: number, digits: 16)
        let hex = String(number, radix: 16)
        let padded = String(repeating: "0", count: 16 - hex.count) + hex
        #expect(text(buffer) == "\(number) \(hex) \(padded)")
    }

    @Test("a number that does not fit is not written in part")
    func numbersBeyond() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.append([UInt8](repeating: 0x20, count: 1_020))
        buffer.append(decimal: 12_345)
        buffer.append(hex: 0x12345)
        #expect(buffer.overflowed == true)
        #expect(buffer.count == 1_020)
        buffer.append(decimal: 1_234)
        #expect(text(buffer).hasSuffix(" 1234"))
    }

    @Test("a copy can be appended to an array")
    func appended() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.append("gone kept")
        buffer.consume(5)
        var array = Array("before ".utf8)
        buffer.copy(to: &array)
        #expect(String(decoding: array, as: UTF8.self) == "before kept")
        #expect(text(buffer) == "kept")
    }

    @Test("JSON strings escape what JSON requires")
    func json() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        buffer.appendJSON("a\"b\\c\nd\u{7f}é")
        #expect(text(buffer) == "\"a\\\"b\\\\c\\u000ad\\u007fé\"")
    }

    @Test("JSON strings of any bytes are written as ASCII")
    func jsonOfBytes() {
        var buffer = ByteBuffer(pool: BufferPool(blockSize: 1024))
        let bytes: [UInt8] = [0x61, 0x22, 0x5c, 0x00, 0x7e, 0x7f, 0x80, 0xff]
        buffer.appendJSON(bytes: bytes.span)
        #expect(text(buffer) == "\"a\\\"\\\\\\u0000~\\u007f\\u0080\\u00ff\"")
    }
}
