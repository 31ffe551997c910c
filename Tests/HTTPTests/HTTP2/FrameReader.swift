import CNghttp2

/// A parser of a session's output.
final class FrameReader {
    private var bytes: [UInt8] = []
    private let inflater: OpaquePointer?

    init() {
        var made: OpaquePointer?
        nghttp2_hd_inflate_new(&made)
        inflater = made
    }

    deinit {
        nghttp2_hd_inflate_del(inflater)
    }

    func append(_ more: [UInt8]) { bytes += more }

    /// Removes and returns a number of bytes that are no frame, if there are as many.
    func take(_ count: Int) -> [UInt8]? {
        guard bytes.count >= count else { return nil }
        defer { bytes.removeFirst(count) }
        return Array(bytes[..<count])
    }

    /// Removes and returns the complete frames.
    func frames() -> [Frame] {
        var found: [Frame] = []
        while bytes.count >= 9 {
            let length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
            guard bytes.count >= 9 + length else { break }
            let stream = bytes[5..<9].reduce(0) { $0 << 8 | UInt32($1) }
            found.append(
                Frame(
                    kind: Frame.Kind(rawValue: bytes[3]) ?? .unknown, flags: bytes[4], stream: stream,
                    payload: Array(bytes[9..<(9 + length)])))
            bytes.removeFirst(9 + length)
        }
        return found
    }

    /// Returns the fields of a HEADERS frame. All of them must be read, in order.
    func fields(_ frame: Frame) -> [String] {
        var found: [String] = []
        var bytes = frame.payload
        var start = 0
        while true {
            var field = nghttp2_nv()
            var flags: Int32 = 0
            let used = bytes.withUnsafeMutableBufferPointer {
                let left = UnsafeMutableBufferPointer(rebasing: $0[start...])
                return nghttp2_hd_inflate_hd2(inflater, &field, &flags, left.baseAddress, left.count, 1)
            }
            guard used >= 0 else { return found + ["no HPACK"] }
            start += used
            if UInt32(flags) & NGHTTP2_HD_INFLATE_EMIT.rawValue != 0 {
                let name = String(decoding: UnsafeBufferPointer(start: field.name, count: field.namelen), as: UTF8.self)
                let value = String(
                    decoding: UnsafeBufferPointer(start: field.value, count: field.valuelen), as: UTF8.self)
                found.append("\(name): \(value)")
            }
            if UInt32(flags) & NGHTTP2_HD_INFLATE_FINAL.rawValue != 0 {
                nghttp2_hd_inflate_end_headers(inflater)
                return found
            }
        }
    }

    /// The number of bytes in the compression table.
    var tableSize: Int { nghttp2_hd_inflate_get_dynamic_table_size(inflater) }
}
