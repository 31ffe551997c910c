internal import Cryptography
internal import Encoding

/// A parsed App Attest attestation object: the result of `DCAppAttestService.attestKey(_:clientDataHash:)`.
///
/// It is a CBOR map of `fmt`, `attStmt` (certificates and receipt) and `authData`, in any order. Apps that opted in to
/// code hashes send a fourth entry `cdHash` from iOS 18.5 to 26. It is not signed, so it is skipped, as in an
/// assertion.
public struct AttestationObject: Equatable, Sendable {
    /// Length limit in bytes. Genuine attestations have about 5,000 to 6,000.
    public static let lengthLimit = 16 * 1024

    /// The position of the leaf certificate in DER. It is not parsed here.
    public let leaf: Range<Int>
    public let intermediate: Range<Int>
    /// The position of the receipt in BER. Nil if it is absent or empty.
    public let receipt: Range<Int>?
    public let data: AttestedData

    /// Parses an attestation.
    ///
    /// - Parameter bytes: The whole attestation. Ranges count from its beginning.
    public init(_ bytes: Span<UInt8>) throws(AttestationFault) {
        guard bytes.count <= Self.lengthLimit else { throw .tooLong }
        var entries = Entries()
        do throws(CBORFault) {
            var reader = CBORReader(bytes)
            try entries.read(&reader, bytes)
            if entries.unknown == nil { try reader.finish() }
        } catch {
            throw .malformed(error)
        }
        if let unknown = entries.unknown { throw unknown }
        guard entries.hasFormat, entries.certificateCount > 0, let data = entries.data else { throw .entryMissing }
        guard let leaf = entries.leaf, let intermediate = entries.intermediate, entries.certificateCount == 2 else {
            throw .certificateCount(entries.certificateCount)
        }
        self.leaf = leaf
        self.intermediate = intermediate
        receipt = entries.receipt.flatMap { $0.isEmpty ? nil : $0 }
        do throws(AuthenticatorDataFault) {
            self.data = try AttestedData(bytes, in: data)
        } catch {
            throw .authenticatorData(error)
        }
    }

    /// The entries of the maps during parsing.
    private struct Entries {
        var hasFormat = false
        var certificateCount = 0
        var leaf: Range<Int>?
        var intermediate: Range<Int>?
        var receipt: Range<Int>?
        var data: Range<Int>?
        /// The fault at which parsing stopped.
        var unknown: AttestationFault?

        mutating func read(_ reader: inout CBORReader, _ bytes: Span<UInt8>) throws(CBORFault) {
            var map = try reader.beginMap()
            while unknown == nil, let key = try reader.nextKey(&map) {
                guard case .text(let name) = key else { throw .unsupportedKey }
                let text = bytes.extracting(name)
                if text.spells("fmt") {
                    let format = bytes.extracting(try reader.readText())
                    if format.spells("apple-appattest") { hasFormat = true } else { unknown = .unknownFormat }
                } else if text.spells("attStmt") {
                    try readStatement(&reader, bytes)
                } else if text.spells("authData") {
                    data = try reader.readBytes()
                } else if text.spells("cdHash") {
                    try reader.skip()
                } else {
                    unknown = .unknownEntry
                }
            }
        }

        private mutating func readStatement(_ reader: inout CBORReader, _ bytes: Span<UInt8>) throws(CBORFault) {
            var map = try reader.beginMap()
            while unknown == nil, let key = try reader.nextKey(&map) {
                guard case .text(let name) = key else { throw .unsupportedKey }
                let text = bytes.extracting(name)
                if text.spells("x5c") {
                    certificateCount = try reader.beginArray()
                    for index in 0..<certificateCount {
                        let certificate = try reader.readBytes()
                        if index == 0 { leaf = certificate } else if index == 1 { intermediate = certificate }
                    }
                } else if text.spells("receipt") {
                    receipt = try reader.readBytes()
                } else {
                    unknown = .unknownEntry
                }
            }
        }
    }
}

extension Span where Element == UInt8 {
    /// Returns whether the bytes are the UTF-8 of `text`.
    ///
    /// - Parameter text: A literal, which needs neither allocation nor reference counting.
    func spells(_ text: String) -> Bool {
        let text = text.utf8
        return ConstantTime.areEqual(self, text.span)
    }
}
