internal import Encoding

/// A parsed App Attest assertion: the result of `DCAppAttestService.generateAssertion(_:clientDataHash:)`.
///
/// It is a CBOR map of the byte strings `signature` and `authenticatorData`, in any order. Apps that opted in to code
/// hashes send a third entry `cdHash` from iOS 18.5 to 26. The signature does not cover it, so it is skipped and never
/// reported. All other entries are refused.
public struct Assertion: Equatable, Sendable {
    /// Length limit in bytes. Genuine assertions have about 140, or about 300 with every extension.
    public static let lengthLimit = 4096

    /// The position of the signature, an ECDSA-Sig-Value in DER. It is not parsed here.
    public let signature: Range<Int>
    public let authenticatorData: AuthenticatorData

    /// Parses an assertion.
    ///
    /// - Parameter bytes: The whole assertion. Ranges count from its beginning.
    public init(_ bytes: Span<UInt8>) throws(AssertionFault) {
        guard bytes.count <= Self.lengthLimit else { throw .tooLong }
        var signature: Range<Int>?
        var data: Range<Int>?
        var isKnown = true
        do throws(CBORFault) {
            var reader = CBORReader(bytes)
            var map = try reader.beginMap()
            while isKnown, let key = try reader.nextKey(&map) {
                guard case .text(let range) = key else { throw .unsupportedKey }
                switch Name(bytes.extracting(range)) {
                case .signature: signature = try reader.readBytes()
                case .authenticatorData: data = try reader.readBytes()
                case .unsignedCodeHash: try reader.skip()
                case nil: isKnown = false
                }
            }
            if isKnown { try reader.finish() }
        } catch {
            throw .malformed(error)
        }
        guard isKnown else { throw .unknownEntry }
        guard let signature, let data else { throw .entryMissing }
        self.signature = signature
        do throws(AuthenticatorDataFault) {
            authenticatorData = try AuthenticatorData(assertion: bytes, in: data)
        } catch {
            throw .authenticatorData(error)
        }
    }

    private enum Name {
        case signature
        case authenticatorData
        case unsignedCodeHash

        init?(_ name: Span<UInt8>) {
            if name.spells("signature") {
                self = .signature
            } else if name.spells("authenticatorData") {
                self = .authenticatorData
            } else if name.spells("cdHash") {
                self = .unsignedCodeHash
            } else {
                return nil
            }
        }
    }
}

/// The two parts of an assertion, which a key binding carries separately.
public struct AssertionParts: Equatable, Sendable {
    /// The signature: ECDSA-Sig-Value in DER.
    public let signature: [UInt8]
    public let authenticatorData: [UInt8]

    /// Creates the parts. `AssertionVerifier` checks their content.
    public init(signature: [UInt8], authenticatorData: [UInt8]) {
        self.signature = signature
        self.authenticatorData = authenticatorData
    }

    /// The assertion composed as `generateAssertion(_:clientDataHash:)` returns it. This way, all assertions are
    /// verified by the same code.
    public var assertion: [UInt8] {
        Self.map(ofEntries: 2) + Self.text("signature") + Self.bytes(signature)
            + Self.text("authenticatorData") + Self.bytes(authenticatorData)
    }

    private static func map(ofEntries count: UInt8) -> [UInt8] { [0xa0 | count] }

    /// Encodes a text of up to 23 bytes.
    private static func text(_ text: StaticString) -> [UInt8] {
        let bytes = Array("\(text)".utf8)
        return [0x60 | UInt8(bytes.count)] + bytes
    }

    /// Encodes a byte string. Its length takes as few bytes as possible (RFC 8949 section 4.2.1).
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
