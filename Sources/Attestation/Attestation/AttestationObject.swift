/// An App Attest attestation object, taken apart: what `DCAppAttestService.attestKey(_:clientDataHash:)` returns.
///
/// A CBOR map of `fmt`, `attStmt` (certificates and receipt) and `authData`, in any order. Apps that opted in to code hashes
/// send a fourth entry `cdHash` from iOS 18.5 to 26, which nobody signed: it is read over, as in an assertion.
public struct AttestationObject: Equatable, Sendable {
    /// Most bytes of an attestation. Genuine ones have about 5 to 6 thousand.
    public static let lengthLimit = 16 * 1024

    /// Where the leaf lies, in DER. Not looked into here.
    public let leaf: Range<Int>
    public let intermediate: Range<Int>
    /// Where the receipt lies, in BER. Nil where there is none, or an empty one.
    public let receipt: Range<Int>?
    public let data: AttestedData

    /// - Parameter bytes: the whole attestation; ranges count from its beginning.
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

    /// What the maps hold, while they are read.
    private struct Entries {
        var hasFormat = false
        var certificateCount = 0
        var leaf: Range<Int>?
        var intermediate: Range<Int>?
        var receipt: Range<Int>?
        var data: Range<Int>?
        /// Why nothing more was read.
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
