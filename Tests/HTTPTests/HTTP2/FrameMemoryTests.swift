import Bytes
import CNghttp2
import Testing

@testable import HTTP

@Suite("Memory of nghttp2 sessions")
struct FrameMemoryTests {
    private let meter = MemoryMeter()
    private let memory: FrameMemory
    init() { memory = FrameMemory(meter, PiecePool()) }
    private var user: UnsafeMutableRawPointer? { Unmanaged.passUnretained(memory).toOpaque() }
    /// The size that nghttp2 requests.
    private let frames = 16_394

    private func isPage(_ pointer: UnsafeMutableRawPointer?) -> Bool { UInt(bitPattern: pointer) % 4096 == 0 }

    @Test("the frame block is whole kernel pages and is reused; other memory is the allocator's")
    func block() throws {
        let functions = memory.functions
        let block = try #require(functions.realloc(nil, frames, user))
        #expect(isPage(block))
        block.storeBytes(of: 7, toByteOffset: frames - 1, as: UInt8.self)
        // More header than a frame holds: nghttp2 requests a second block.
        let second = try #require(functions.malloc(frames, user))
        let small = try #require(functions.calloc(4, 16, user))
        #expect(small.load(as: UInt64.self) == 0)
        let grown = try #require(functions.realloc(small, 4096, user))
        #expect(block.load(fromByteOffset: frames - 1, as: UInt8.self) == 7)
        #expect(memory.used > 2 * frames + 4096 && memory.used < 3 * frames, "what the session has is accounted for")
        #expect(abs(meter.used - memory.used) < 4096)
        for pointer in [second, grown, block, nil] { functions.free(pointer, user) }
        #expect(memory.used == 0)
        // The block is available again.
        let again = try #require(functions.malloc(frames, user))
        #expect(isPage(again))
        functions.free(again, user)
    }

    @Test("a block that grows keeps its content")
    func growth() throws {
        let functions = memory.functions
        let block = try #require(functions.malloc(frames, user))
        for index in 0..<frames {
            block.storeBytes(of: UInt8(truncatingIfNeeded: index), toByteOffset: index, as: UInt8.self)
        }
        let same = try #require(functions.realloc(block, 20_000, user))
        #expect(same == block)
        let larger = try #require(functions.realloc(same, 100_000, user))
        for index in stride(from: 0, to: frames, by: 97) {
            #expect(larger.load(fromByteOffset: index, as: UInt8.self) == UInt8(truncatingIfNeeded: index))
        }
        functions.free(larger, user)
    }

    @Test("small memory is reused without the allocator, and is zeroed where nghttp2 asks for it")
    func pieces() throws {
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
