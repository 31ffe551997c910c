internal import CNghttp2

/// Fields as nghttp2 takes them, made of lines: `name: value CR LF`, as they are written for HTTP/1.1.
///
/// The lines are this program's or come from a parsed message, so they are taken at their word. nghttp2 copies what it is
/// given, names in lower case (RFC 9113 section 8.2).
@safe struct FieldList {
    /// Kept for its room; its pointers are valid only within `withFields`.
    private var entries: [nghttp2_nv] = unsafe []
    private let table = FieldNameTable.shared

    /// - Parameters:
    ///   - lines: behind the three digits of the status, if `hasStatus`.
    mutating func withFields(
        of lines: Span<UInt8>, hasStatus: Bool, _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) {
        unsafe entries.removeAll(keepingCapacity: true)
        unsafe lines.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress else { return }
            if hasStatus { unsafe append(Self.status.utf8Start, Self.status.utf8CodeUnitCount, start, 3) }
            var position = hasStatus ? 3 : 0
            while position < bytes.count {
                var colon = position
                while unsafe bytes[colon] != ByteClass.colon { colon += 1 }
                var end = colon
                while unsafe bytes[end] != ByteClass.carriageReturn { end += 1 }
                if isOfStream(lines.extracting(position..<colon)) {
                    unsafe append(start + position, colon - position, start + colon + 2, end - colon - 2)
                }
                position = end + 2
            }
            unsafe entries.withUnsafeBufferPointer(body)
        }
    }

    /// RFC 9113 section 8.2.2: a response of HTTP/1.1 that is passed on may have such.
    private func isOfStream(_ name: Span<UInt8>) -> Bool {
        var hash = FieldNameTable.start
        for index in name.indices { hash = FieldNameTable.mix(hash, name[index]) }
        switch table.find(name, hash: hash) {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: return false
        default: return true
        }
    }

    private mutating func append(
        _ name: UnsafePointer<UInt8>, _ nameLength: Int, _ value: UnsafePointer<UInt8>, _ valueLength: Int
    ) {
        // nghttp2 does not write to them.
        unsafe entries.append(
            nghttp2_nv(
                name: UnsafeMutablePointer(mutating: name), value: UnsafeMutablePointer(mutating: value),
                namelen: nameLength, valuelen: valueLength, flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)))
    }

    private static let status: StaticString = ":status"
}
