import Glibc

/// A bounded first-in-first-out byte buffer over one pooled block.
///
/// Bytes are appended at the end and consumed from the front. The capacity is one block. An append that does not fit
/// sets `overflowed` and writes nothing, so a serializer writes a whole head and checks once at the end.
///
/// This type has the raw memory of the data path. The invariant: `base` is nil or a block of `pool.blockSize` bytes
/// owned by this buffer alone, and `0 <= start <= end <= pool.blockSize`; bytes in `start..<end` are initialised. Every
/// method keeps it. Callers see `Span`, whose lifetime the compiler checks.
public struct ByteBuffer: ~Copyable {
    @usableFromInline let pool: BufferPool
    @usableFromInline var base: UnsafeMutablePointer<UInt8>?
    @usableFromInline var start = 0
    @usableFromInline var end = 0
    /// Whether an append was refused since the last `rollback` or `removeAll`.
    public private(set) var overflowed = false

    public init(pool: BufferPool) {
        self.pool = pool
    }

    deinit {
        if let base { pool.give(base) }
    }

    @inlinable public var count: Int { end - start }
    @inlinable public var isEmpty: Bool { end == start }
    /// The number of bytes that still fit, including the room of consumed bytes.
    @inlinable public var room: Int { pool.blockSize - (end - start) }

    /// The bytes not yet consumed.
    @inlinable public var readable: Span<UInt8> {
        @_lifetime(borrow self)
        get {
            // `base` is nil only while the buffer is empty; a null pointer with count 0 is a valid empty buffer.
            let bytes = UnsafeBufferPointer(start: base.map { UnsafePointer($0) + start }, count: end - start)
            return bound(bytes.span, borrowing: self)
        }
    }

    /// Returns a copy of the bytes not yet consumed.
    public func copy() -> [UInt8] {
        withUnsafeReadable { Array($0) }
    }

    /// Appends the bytes not yet consumed to an array.
    public func copy(to array: inout [UInt8]) {
        withUnsafeReadable { array.append(contentsOf: $0) }
    }

    /// Drops `count` bytes from the front.
    @inlinable public mutating func consume(_ count: Int) {
        precondition(count >= 0 && count <= end - start, "consumed more than was there")
        start += count
        if start == end {
            start = 0
            end = 0
        }
    }

    /// Keeps the first `count` bytes and drops the rest.
    public mutating func truncate(to count: Int) {
        precondition(count >= 0 && count <= end - start, "truncated to more than was there")
        end = start + count
    }

    public mutating func removeAll() {
        start = 0
        end = 0
        overflowed = false
        releaseIfEmpty()
    }

    /// Returns the block to the pool if the buffer is empty, so that an idle connection holds none.
    @inlinable public mutating func releaseIfEmpty() {
        if start == end, base != nil { release() }
    }

    /// The bytes of memory that the buffer takes from its pool.
    public var footprint: Int { base == nil ? 0 : pool.blockSize }

    /// Moves a few waiting bytes to a small block. The buffer has little room afterwards, until it `expands`.
    public mutating func shrink() {
        guard base != nil, count <= BufferPool.smallBlockSize, pool.blockSize > BufferPool.smallBlockSize else {
            return
        }
        var smaller = ByteBuffer(pool: pool.small)
        smaller.append(readable)
        swap(&self, &smaller)
    }

    /// Empties the buffer, whose blocks come from `pool` again.
    public mutating func expand(_ pool: BufferPool) {
        if self.pool === pool { removeAll() } else { self = ByteBuffer(pool: pool) }
    }

    @usableFromInline mutating func release() {
        guard let block = base else { return }
        pool.give(block)
        base = nil
        start = 0
        end = 0
    }

    /// Removes everything appended since `count` was the buffer's count, and clears an overflow.
    public mutating func rollback(to count: Int) {
        truncate(to: count)
        overflowed = false
    }

    /// Passes the free room to `body`, which returns the number of bytes it wrote.
    package mutating func withWritable<Result>(
        _ body: (UnsafeMutableBufferPointer<UInt8>) -> (written: Int, result: Result)
    ) -> Result {
        let block = makeRoom(1)
        let free = UnsafeMutableBufferPointer(start: block + end, count: pool.blockSize - end)
        let (written, result) = body(free)
        precondition(written >= 0 && written <= free.count, "wrote past the room")
        end += written
        return result
    }

    /// Passes the readable bytes to a C function. The pointer is valid only inside `body`.
    package func withUnsafeReadable<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        body(UnsafeBufferPointer(start: base.map { UnsafePointer($0) + start }, count: count))
    }

    /// Ensures a block and, if the tail is shorter than `wanted`, moves the content to the front.
    private mutating func makeRoom(_ wanted: Int) -> UnsafeMutablePointer<UInt8> {
        guard let block = base else {
            let block = pool.take()
            base = block
            return block
        }
        if start > 0, pool.blockSize - end < max(wanted, pool.blockSize / 2) {
            block.update(from: block + start, count: end - start)
            end -= start
            start = 0
        }
        return block
    }

    private mutating func appendBytes(_ source: UnsafeBufferPointer<UInt8>) {
        guard let from = source.baseAddress, source.count > 0, let place = claim(source.count) else { return }
        place.update(from: from, count: source.count)
    }

    /// Advances the end by `count` bytes, which the caller writes at once.
    ///
    /// - Returns: the address of these bytes. Nil if they do not fit.
    @inline(__always)
    private mutating func claim(_ count: Int) -> UnsafeMutablePointer<UInt8>? {
        // Most appends find room behind the content.
        guard let base, count <= pool.blockSize - end else { return claimElsewhere(count) }
        defer { end += count }
        return base + end
    }

    @inline(never)
    private mutating func claimElsewhere(_ count: Int) -> UnsafeMutablePointer<UInt8>? {
        guard count <= room else {
            overflowed = true
            return nil
        }
        let block = makeRoom(count)
        defer { end += count }
        return block + end
    }
}

// MARK: - Appending

extension ByteBuffer {
    public mutating func append(_ bytes: Span<UInt8>) {
        bytes.withUnsafeBufferPointer { appendBytes($0) }
    }

    /// Appends as many of `bytes` as fit.
    ///
    /// - Returns: the number of appended bytes.
    public mutating func appendPrefix(of bytes: Span<UInt8>) -> Int {
        let taken = min(bytes.count, room)
        append(bytes.extracting(first: taken))
        return taken
    }

    /// Appends as many bytes of another block as fit.
    ///
    /// - Returns: the number of appended bytes.
    mutating func appendPrefix(of bytes: UnsafeBufferPointer<UInt8>) -> Int {
        let taken = min(bytes.count, room)
        appendBytes(UnsafeBufferPointer(rebasing: bytes[..<taken]))
        return taken
    }

    /// Appends both or nothing.
    public mutating func append(_ bytes: Span<UInt8>, _ end: StaticString) {
        guard var place = claim(bytes.count + end.utf8CodeUnitCount) else { return }
        bytes.withUnsafeBufferPointer { Self.copy($0, to: &place) }
        Self.copy(UnsafeBufferPointer(start: end.utf8Start, count: end.utf8CodeUnitCount), to: &place)
    }

    /// Appends both or nothing.
    public mutating func append(_ first: Span<UInt8>, _ second: Span<UInt8>) {
        guard var place = claim(first.count + second.count) else { return }
        first.withUnsafeBufferPointer { Self.copy($0, to: &place) }
        second.withUnsafeBufferPointer { Self.copy($0, to: &place) }
    }

    /// Appends all pieces or nothing, with one check of the room.
    public mutating func append(
        _ first: Span<UInt8>, _ separator: StaticString, _ second: Span<UInt8>, _ end: StaticString
    ) {
        let ends = (separator.utf8CodeUnitCount, end.utf8CodeUnitCount)
        guard var place = claim(first.count + ends.0 + second.count + ends.1) else { return }
        first.withUnsafeBufferPointer { Self.copy($0, to: &place) }
        Self.copy(UnsafeBufferPointer(start: separator.utf8Start, count: ends.0), to: &place)
        second.withUnsafeBufferPointer { Self.copy($0, to: &place) }
        Self.copy(UnsafeBufferPointer(start: end.utf8Start, count: ends.1), to: &place)
    }

    /// Appends all pieces or nothing. Only the third is not a constant.
    public mutating func append(
        _ first: StaticString, _ second: StaticString, _ bytes: Span<UInt8>, _ end: StaticString
    ) {
        let counts = (first.utf8CodeUnitCount, second.utf8CodeUnitCount, end.utf8CodeUnitCount)
        guard var place = claim(counts.0 + counts.1 + bytes.count + counts.2) else { return }
        Self.copy(UnsafeBufferPointer(start: first.utf8Start, count: counts.0), to: &place)
        Self.copy(UnsafeBufferPointer(start: second.utf8Start, count: counts.1), to: &place)
        bytes.withUnsafeBufferPointer { Self.copy($0, to: &place) }
        Self.copy(UnsafeBufferPointer(start: end.utf8Start, count: counts.2), to: &place)
    }

    /// Appends both or nothing.
    public mutating func append(_ first: StaticString, _ second: StaticString) {
        let counts = (first.utf8CodeUnitCount, second.utf8CodeUnitCount)
        guard var place = claim(counts.0 + counts.1) else { return }
        Self.copy(UnsafeBufferPointer(start: first.utf8Start, count: counts.0), to: &place)
        Self.copy(UnsafeBufferPointer(start: second.utf8Start, count: counts.1), to: &place)
    }

    /// Copies bytes into claimed room.
    @inline(__always)
    private static func copy(_ source: UnsafeBufferPointer<UInt8>, to place: inout UnsafeMutablePointer<UInt8>) {
        if let from = source.baseAddress { place.update(from: from, count: source.count) }
        place += source.count
    }

    public mutating func append(_ literal: StaticString) {
        appendBytes(UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    public mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { appendBytes($0) }
    }

    /// Appends a string. Disfavoured, since a literal would otherwise become a `String` and be copied once more.
    @_disfavoredOverload
    public mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { appendBytes($0) }
    }

    public mutating func append(_ byte: UInt8) {
        withUnsafePointer(to: byte) { appendBytes(UnsafeBufferPointer(start: $0, count: 1)) }
    }

    /// Appends a number in decimal digits without leading zeros.
    public mutating func append(decimal number: UInt64) {
        var rest = number
        var position = 1
        while rest > 9 {
            rest /= 10
            position += 1
        }
        guard let digits = claim(position) else { return }
        rest = number
        repeat {
            position -= 1
            digits[position] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while position > 0
    }

    /// Appends a text followed by a number of sixteen digits in lower-case hexadecimal, both or nothing.
    public mutating func append(_ text: StaticString, sixteen number: UInt64) {
        guard var place = claim(text.utf8CodeUnitCount + 16) else { return }
        Self.copy(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount), to: &place)
        let digits = UnsafeMutableRawPointer(place)
        digits.storeBytes(of: Self.hexadecimal(number >> 32).bigEndian, as: UInt64.self)
        digits.storeBytes(of: Self.hexadecimal(number & 0xffff_ffff).bigEndian, toByteOffset: 8, as: UInt64.self)
    }

    /// Appends a number in lower-case hexadecimal with at least `digits` digits, 16 at most.
    public mutating func append(hex number: UInt64, digits minimum: Int = 1) {
        let count = max(minimum, (67 - number.leadingZeroBitCount) / 4)
        let digits = (Self.hexadecimal(number >> 32).bigEndian, Self.hexadecimal(number & 0xffff_ffff).bigEndian)
        withUnsafeBytes(of: digits) { digits in
            digits.withMemoryRebound(to: UInt8.self) { appendBytes(UnsafeBufferPointer(rebasing: $0.suffix(count))) }
        }
    }

    /// Returns the eight digits of a 32-bit number, computed at once: each byte of the result is a digit.
    private static func hexadecimal(_ number: UInt64) -> UInt64 {
        var nibbles = (number | number << 16) & 0x0000_ffff_0000_ffff
        nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff
        nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f
        // 1 in the place of each letter: 10 + 6 carries into the upper half.
        let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        let fromNineToA = UInt64(UInt8(ascii: "a") - UInt8(ascii: "9") - 1)
        return nibbles + 0x3030_3030_3030_3030 + letters * fromNineToA
    }
}

// MARK: - Lifetimes

/// Ties a span made from a raw pointer to the buffer that owns the memory.
@unsafe
@_unsafeNonescapableResult
@_lifetime(borrow source)
@inlinable
func bound<T: ~Copyable & ~Escapable, U: ~Copyable & ~Escapable>(
    _ dependent: consuming T, borrowing source: borrowing U
) -> T {
    dependent
}

/// JSON text (RFC 8259), written without building strings.
extension ByteBuffer {
    /// Appends `text` as a JSON string, quotes included.
    public mutating func appendJSON(_ text: String) {
        var text = text
        text.withUTF8 { appendJSON($0) { $0 < 0x20 || $0 == 0x22 || $0 == 0x5c || $0 == 0x7f } }
    }

    /// Appends any bytes as a JSON string of ASCII, quotes included. Bytes beyond ASCII are read as Latin-1 (`\u00e4`).
    /// So the text is always well-formed, and contains nothing that controls a terminal.
    public mutating func appendJSON(bytes: Span<UInt8>) {
        bytes.withUnsafeBufferPointer {
            appendJSON($0) { $0 < 0x20 || $0 == 0x22 || $0 == 0x5c || $0 >= 0x7f }
        }
    }

    private mutating func appendJSON(_ bytes: UnsafeBufferPointer<UInt8>, escaping needsEscape: (UInt8) -> Bool) {
        append("\"")
        // Runs without characters to escape are copied at once.
        var start = 0
        for (index, byte) in bytes.enumerated() where needsEscape(byte) {
            append(UnsafeBufferPointer(rebasing: bytes[start..<index]).span)
            appendEscape(byte)
            start = index + 1
        }
        append(UnsafeBufferPointer(rebasing: bytes[start...]).span)
        append("\"")
    }

    private mutating func appendEscape(_ byte: UInt8) {
        switch byte {
        case 0x22: append("\\\"")
        case 0x5c: append("\\\\")
        default:
            append("\\u")
            append(hex: UInt64(byte), digits: 4)
        }
    }
}
