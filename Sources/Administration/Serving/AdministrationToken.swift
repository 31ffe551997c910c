internal import Cryptography

/// What those show who ask by TCP: `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
public struct AdministrationToken: Equatable, Sendable {
    let bytes: [UInt8]

    public static let shortest = 32
    static let longest = 1024

    /// - Parameter text: of a file; blanks and ends of lines around the token are none of it.
    /// - Returns: nil if what is left is not 32 to 1,024 printable ASCII characters.
    public init?(_ text: [UInt8]) {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }
        let token = text.drop(while: isBlank).reversed().drop(while: isBlank).reversed()
        guard (Self.shortest...Self.longest).contains(token.count), token.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        bytes = Array(token)
    }

    /// - Parameter credentials: the value of an Authorization field. How much of the token is right does not show in the time
    ///   this takes.
    func isMeant(by credentials: String) -> Bool {
        let parts = credentials.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        // The scheme's case means nothing (RFC 9110 section 11.1).
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return false }
        return isEqual(to: String(parts[1]))
    }

    /// In constant time, too.
    func isEqual(to text: String) -> Bool {
        let shown = Array(text.utf8)
        return ConstantTime.areEqual(shown.span, bytes.span)
    }
}
