/// The two parts of an assertion that a key binding carries apart.
public struct AssertionParts: Equatable, Sendable {
    /// ECDSA-Sig-Value in DER.
    public let signature: [UInt8]
    public let authenticatorData: [UInt8]

    /// Of any content; `AssertionVerifier` looks into it.
    public init(signature: [UInt8], authenticatorData: [UInt8]) {
        self.signature = signature
        self.authenticatorData = authenticatorData
    }

    /// The parts put together as `generateAssertion(_:clientDataHash:)` returns them, so that there is one way only to
    /// verify an assertion.
    public var assertion: [UInt8] {
        Self.map(ofEntries: 2) + Self.text("signature") + Self.bytes(signature)
            + Self.text("authenticatorData") + Self.bytes(authenticatorData)
    }

    private static func map(ofEntries count: UInt8) -> [UInt8] { [0xa0 | count] }

    /// Text of up to 23 bytes.
    private static func text(_ text: StaticString) -> [UInt8] {
        let bytes = Array("\(text)".utf8)
        return [0x60 | UInt8(bytes.count)] + bytes
    }

    /// The length in as few bytes as it needs (RFC 8949 section 4.2.1).
    private static func bytes(_ bytes: [UInt8]) -> [UInt8] {
        let count = bytes.count
        return switch count {
        case ..<24: [0x40 | UInt8(count)] + bytes
        case ..<0x100: [0x58, UInt8(count)] + bytes
        case ..<0x1_0000: [0x59, UInt8(count >> 8), UInt8(count & 0xff)] + bytes
        default:
            [0x5a] + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: count >> $0) } + bytes
        }
    }
}
