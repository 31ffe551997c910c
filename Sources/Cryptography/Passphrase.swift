/// What a private key in a file is encrypted with. Shows itself to nobody: not to logs, not to a debugger's print.
public struct Passphrase: Sendable {
    let bytes: [UInt8]

    /// In bytes. OpenSSL has room for 1,024.
    public static let longest = 512

    /// - Parameter text: one line; its end, if there is one, is none of the passphrase. Taken as bytes: the key was
    ///   encrypted with bytes, too.
    public init(_ text: [UInt8]) throws(PassphraseFault) {
        var bytes = text[...]
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Self.longest else { throw .tooLong }
        // OpenSSL's tools take the first line and say nothing of the others.
        guard !bytes.contains(where: { $0 == UInt8(ascii: "\n") || $0 == 0 }) else { throw .severalLines }
        self.bytes = Array(bytes)
    }
}

extension Passphrase: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "(passphrase)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Why something is no passphrase.
public enum PassphraseFault: Error, Equatable, Sendable {
    case empty
    case tooLong
    /// More than one line, or NUL.
    case severalLines
}

extension PassphraseFault: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .empty: "the passphrase is empty"
        case .tooLong: "the passphrase is longer than \(Passphrase.longest) bytes"
        case .severalLines: "the passphrase is not one line of text"
        }
    }
}
