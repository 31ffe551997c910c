import Attestation
import Testing

/// The forms in which Apple's systems send assertions, as seen on devices.
struct AssertionForm: CustomTestStringConvertible {
    var testDescription: String
    var flags: UInt8
    var extensions: [(String, [UInt8])]?
    /// Entries of the outer map before the two that are known, outside of the signature.
    var unsigned: [(String, [UInt8])] = []

    private static let codeHash: [UInt8] = Array(0..<32)
    private static let appExtensions: [(String, [UInt8])] = [
        ("apple_bundle_version_01", CBORWriting.text("1.2.3")),
        ("apple_validation_category_01", CBORWriting.bytes([4, 0, 0, 0])),
    ]

    static let all: [AssertionForm] = [
        AssertionForm(testDescription: "iOS 14 to 26", flags: 0x40),
        AssertionForm(
            testDescription: "iOS 18.5 to 26, opted in to code hashes", flags: 0x40,
            unsigned: [
                (
                    "cdHash",
                    CBORWriting.map([
                        ("hash", CBORWriting.bytes(Array(codeHash.prefix(20)))), ("type", CBORWriting.bytes([2])),
                    ])
                )
            ]),
        AssertionForm(testDescription: "iOS 27", flags: 0xc0, extensions: appExtensions),
        AssertionForm(
            testDescription: "iOS 27, opted in to code hashes", flags: 0xc0,
            extensions: appExtensions + [
                ("apple_cd_hash_hash_01", CBORWriting.bytes(codeHash)),
                ("apple_cd_hash_type_01", CBORWriting.bytes([2])),
            ]),
        AssertionForm(testDescription: "macOS 27, Apple's sample of 2026", flags: 0x40, extensions: appExtensions),
        AssertionForm(
            testDescription: "macOS 27, opted in, short hash, other order", flags: 0x40,
            extensions: [
                ("apple_validation_category_01", CBORWriting.bytes([6, 0, 0, 0])),
                ("apple_cd_hash_type_01", CBORWriting.bytes([2])),
                ("apple_cd_hash_hash_01", CBORWriting.bytes(Array(codeHash.prefix(20)))),
            ]),
        AssertionForm(
            testDescription: "a system to come", flags: 0xff,
            extensions: appExtensions + [
                ("apple_unheard_of_01", CBORWriting.map([("a", [0xf5]), ("b", [0x82, 0x20, 0xf6])]))
            ]),
    ]

    func authenticatorData(rpIDHash: [UInt8], counter: UInt32) -> [UInt8] {
        rpIDHash + [flags] + CBORWriting.bigEndian(UInt64(counter), 4) + (extensions.map(CBORWriting.map) ?? [])
    }

    func assertion(signature: [UInt8], authenticatorData: [UInt8]) -> [UInt8] {
        CBORWriting.map(
            unsigned + [
                ("signature", CBORWriting.bytes(signature)),
                ("authenticatorData", CBORWriting.bytes(authenticatorData)),
            ])
    }
}
