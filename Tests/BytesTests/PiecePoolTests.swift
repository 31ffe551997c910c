import Glibc
import Testing

@testable import Bytes

@Suite("Pieces for the objects of a library")
struct PiecePoolTests {
    private let pool = PiecePool()

    private func take(_ size: Int) -> UnsafeMutableRawPointer? {
        var usable = 0
        let piece = pool.take(size, usable: &usable)
        if piece != nil { #expect(usable >= size) }
        return piece
    }

    @Test("a piece is reused for what fits, and has one user at a time")
    func reuse() throws {
        let piece = try #require(malloc(104))
        #expect(take(104) == nil)
        #expect(pool.keep(piece, 104))
        #expect(take(105) == nil)
        #expect(take(88) == nil, "another size has pieces of its own")
        #expect(take(89) == piece)
        #expect(take(104) == nil)
        free(piece)
    }

    @Test("the last piece that was kept is the first to be reused")
    func order() throws {
        let pieces = try (0..<3).map { _ in try #require(malloc(24)) }
        for piece in pieces { #expect(pool.keep(piece, 24)) }
        for piece in pieces.reversed() { #expect(take(1) == piece) }
        for piece in pieces { free(piece) }
    }

    @Test("large pieces, those of other sizes, and those beyond 128 KiB are not kept")
    func bounds() throws {
        let large = try #require(malloc(1032))
        for size in [0, 8, 25, 1032, 1 << 40] { #expect(!pool.keep(large, size)) }
        free(large)
        var kept = 0
        while true {
            let piece = try #require(malloc(1016))
            guard pool.keep(piece, 1016) else {
                free(piece)
                break
            }
            kept += 1016
        }
        #expect(kept >= 128 * 1024 && kept < 130 * 1024)
        pool.releaseAll()
        #expect(take(1016) == nil)
        let piece = try #require(malloc(1016))
        #expect(pool.keep(piece, 1016))
    }
}
