internal import HTTP

/// Which requests are calls of gRPC: their clients read no content of a refusal, but its fields.
enum GRPCCall {
    private static let mediaType = Array("application/grpc".utf8)

    /// - Parameter bytes: of the head.
    static func isMeant(by head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        guard !head.opensWebSocket else { return false }
        // A request has one Content-Type at most.
        for field in head.fields where field.name == .contentType { return isMeant(by: field.valueRange.of(bytes)) }
        return false
    }

    /// `application/grpc`, also with the format of its messages (`+proto`) or parameters behind. A longer type with the
    /// same beginning is another one: `application/grpc-web` has its status in the content, even over HTTP/2.
    static func isMeant(by contentType: Span<UInt8>) -> Bool {
        let length = mediaType.count
        guard contentType.count >= length, contentType.extracting(first: length).equals(lowercase: mediaType) else {
            return false
        }
        guard contentType.count > length else { return true }
        switch contentType[length] {
        case UInt8(ascii: "+"), UInt8(ascii: ";"), UInt8(ascii: " "), UInt8(ascii: "\t"): return true
        default: return false
        }
    }
}
