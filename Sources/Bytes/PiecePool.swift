import Glibc

/// Unused pieces of memory by size, for a library that allocates and frees several small objects for each request.
///
/// Raw memory. The invariant: each list links pieces that have no other user, by the address of the next in the first
/// bytes of each; a piece in the list of class n has at least `bytes(of: n)` bytes.
///
/// Not `Sendable`: a pool belongs to its loop.
public final class PiecePool {
    private static let step = 16
    private static let classes = 65
    /// The first piece of each class.
    private let lists: UnsafeMutablePointer<UnsafeMutableRawPointer?>
    /// The bytes in all lists.
    private var idle = 0
    /// The maximum bytes in all lists: what the streams of a few busy connections need.
    private static let mostIdle = 128 * 1024

    public init() {
        lists = .allocate(capacity: Self.classes)
        lists.initialize(repeating: nil, count: Self.classes)
    }

    deinit {
        releaseAll()
        lists.deallocate()
    }

    /// Takes a piece of at least `size` bytes. Nil if there is none.
    ///
    /// - Parameter usable: set to the number of its bytes.
    public func take(_ size: Int, usable: inout Int) -> UnsafeMutableRawPointer? {
        // A piece of the allocator has eight bytes less than a multiple of sixteen, and at least 24, for a link.
        let number = max(2, (size + 8 + Self.step - 1) / Self.step)
        guard number < Self.classes, let piece = lists[number] else { return nil }
        lists[number] = piece.load(as: UnsafeMutableRawPointer?.self)
        usable = number * Self.step - 8
        idle -= usable
        return piece
    }

    /// Keeps a piece for reuse.
    ///
    /// - Parameters:
    ///   - piece: memory from `malloc` without a user.
    ///   - size: the bytes that the allocator has made available in it.
    /// - Returns: false if it is large, or there are enough. The piece is then still the caller's.
    public func keep(_ piece: UnsafeMutableRawPointer, _ size: Int) -> Bool {
        let number = (size + 8) / Self.step
        guard number < Self.classes, number >= 2, size + 8 == number * Self.step, idle < Self.mostIdle else {
            return false
        }
        piece.storeBytes(of: lists[number], as: UnsafeMutableRawPointer?.self)
        lists[number] = piece
        idle += size
        return true
    }

    /// Returns all pieces to the allocator.
    func releaseAll() {
        for number in 0..<Self.classes {
            while let piece = lists[number] {
                lists[number] = piece.load(as: UnsafeMutableRawPointer?.self)
                free(piece)
            }
        }
        idle = 0
    }
}
