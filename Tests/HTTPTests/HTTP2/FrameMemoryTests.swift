import Bytes
import CNghttp2
import Testing

@testable import HTTP

@Suite("Memory of nghttp2 sessions")
struct FrameMemoryTests {
    private let meter = MemoryMeter()
    private let pieces = PiecePool()
    private let frames = FrameBlock()
    private let memory: FrameMemory
    init() { memory = FrameMemory(meter, pieces, frames) }
    private var user: UnsafeMutableRawPointer? { Unmanaged.passUnretained(memory).toOpaque() }
    /// The size that nghttp2 requests.
    private let size = 16_394

    @Test("the sessions of a loop share the block for frames; other memory is the allocator's")
    func block() throws {
        let functions = memory.functions
        let block = try #require(functions.realloc(nil, size, user))
        #expect(block == frames.bytes)
        #expect(memory.used == 0)
        let other = FrameMemory(meter, pieces, frames)
        let otherUser = Unmanaged.passUnretained(other).toOpaque()
        #expect(other.functions.malloc(size, otherUser) == block)
        // More header than a frame holds: nghttp2 requests a second block, which is the session's own.
        let second = try #require(functions.malloc(size, user))
        #expect(second != block)
        let small = try #require(functions.calloc(4, 16, user))
        #expect(small.load(as: UInt64.self) == 0)
        let grown = try #require(functions.realloc(small, 4096, user))
        #expect(memory.used > size + 4096 && memory.used < 2 * size, "what the session has is accounted for")
        #expect(abs(meter.used - memory.used) < 4096)
        for pointer in [second, grown, block, nil] { functions.free(pointer, user) }
        other.functions.free(block, otherUser)
        #expect(memory.used == 0)
        // The block is available again.
        #expect(functions.malloc(size, user) == block)
        functions.free(block, user)
    }

    @Test("a client's session has a block of its own")
    func own() throws {
        let client = FrameMemory(meter, pieces, nil)
        let user = Unmanaged.passUnretained(client).toOpaque()
        let block = try #require(client.functions.malloc(size, user))
        #expect(block != frames.bytes)
        #expect(client.used >= size)
        client.functions.free(block, user)
        #expect(client.used == 0)
    }

    @Test("a block that grows keeps its content")
    func growth() throws {
        let functions = memory.functions
        let block = try #require(functions.malloc(size, user))
        for index in 0..<size {
            block.storeBytes(of: UInt8(truncatingIfNeeded: index), toByteOffset: index, as: UInt8.self)
        }
        let same = try #require(functions.realloc(block, 20_000, user))
        #expect(same == block)
        let larger = try #require(functions.realloc(same, 100_000, user))
        for index in stride(from: 0, to: size, by: 97) {
            #expect(larger.load(fromByteOffset: index, as: UInt8.self) == UInt8(truncatingIfNeeded: index))
        }
        functions.free(larger, user)
    }

    @Test("frames that are made within those of another session do not change these")
    func nested() {
        frames.use {
            frames.bytes.storeBytes(of: 1, as: UInt8.self)
            frames.use {
                frames.bytes.storeBytes(of: 2, as: UInt8.self)
                frames.use { frames.bytes.storeBytes(of: 3, as: UInt8.self) }
                #expect(frames.bytes.load(as: UInt8.self) == 2)
            }
            #expect(frames.bytes.load(as: UInt8.self) == 1)
        }
    }

    @Test("small memory is reused without the allocator, and is zeroed where nghttp2 asks for it")
    func small() throws {
        let functions = memory.functions
        let piece = try #require(functions.malloc(100, user))
        piece.initializeMemory(as: UInt8.self, repeating: 0xff, count: 100)
        let held = memory.used
        functions.free(piece, user)
        #expect(memory.used == 0)
        #expect(functions.malloc(97, user) == piece)
        #expect(memory.used == held)
        functions.free(piece, user)
        let zeroed = try #require(functions.calloc(10, 10, user))
        for offset in 0..<100 { #expect(zeroed.load(fromByteOffset: offset, as: UInt8.self) == 0) }
        functions.free(zeroed, user)
        #expect(memory.used == 0)
    }
}
