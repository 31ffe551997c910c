/// Whether what a server says begins as HTTP/2 does: with SETTINGS (RFC 9113 section 3.4), or GOAWAY from one that did not
/// understand what it was asked. Asked where HTTP/1.1 is expected, whose responses begin with a letter.
public enum HTTP2Preface: Equatable, Sendable {
    /// It does not, or nothing has come yet.
    case none
    /// As far as it has come, it may.
    case part
    case whole

    /// Length (three octets), type, flags, stream (RFC 9113 section 4.1).
    private static let headerLength = 9
    private static let settings: UInt8 = 4
    private static let goAway: UInt8 = 7

    public static func look(at bytes: Span<UInt8>) -> HTTP2Preface {
        // Frames of these types are short. No response begins with NUL.
        guard bytes.count > 0, bytes[0] == 0 else { return .none }
        if bytes.count > 3, bytes[3] != settings, bytes[3] != goAway { return .none }
        guard bytes.count >= headerLength else { return .part }
        // The first bit is reserved, and means nothing.
        let isOfConnection = bytes[5] & 0x7f == 0 && bytes[6] == 0 && bytes[7] == 0 && bytes[8] == 0
        return isOfConnection ? .whole : .none
    }
}
