/// The forms in which Apple's systems send assertions, as seen on devices.
public enum AssertionForm: String, CaseIterable, Sendable {
    /// iOS 14 to 26: 37 bytes of authenticator data, flags 0x40.
    case iOS14 = "ios-14"
    /// iOS 18.5 to 26, the app opted in to code hashes: an entry outside of the signature.
    case iOS18CodeHash = "ios-18-code-hash"
    /// iOS 27: flags 0xC0 and a map of extensions.
    case iOS27 = "ios-27"
    /// iOS 27, the app opted in to code hashes.
    case iOS27CodeHash = "ios-27-code-hash"
    /// macOS 27: the extensions follow, yet the flags do not say so.
    case macOS27 = "macos-27"

    /// Bit 6 is AT, which announces attested credential data (there is none), bit 7 is ED, extension data.
    var flags: UInt8 {
        switch self {
        case .iOS14, .iOS18CodeHash, .macOS27: 0x40
        case .iOS27, .iOS27CodeHash: 0xc0
        }
    }

    /// What follows the 37 bytes: nothing, or one CBOR map.
    var extensions: [UInt8] {
        // 4, App Store: a little-endian number, unlike everything else in authenticator data.
        let app: [(String, [UInt8])] = [
            ("apple_bundle_version_01", CBORWriter.text("1")),
            ("apple_validation_category_01", CBORWriter.bytes([4, 0, 0, 0])),
        ]
        switch self {
        case .iOS14, .iOS18CodeHash: return []
        case .iOS27, .macOS27: return CBORWriter.map(app)
        case .iOS27CodeHash:
            let codeHash: [(String, [UInt8])] = [
                ("apple_cd_hash_hash_01", CBORWriter.bytes(Self.codeHash)),
                ("apple_cd_hash_type_01", CBORWriter.bytes([2])),
            ]
            return CBORWriter.map(app + codeHash)
        }
    }

    /// Entries of the assertion that nobody signs.
    var unsignedEntries: [(String, [UInt8])] {
        guard self == .iOS18CodeHash else { return [] }
        let entries = [
            ("hash", CBORWriter.bytes(Array(Self.codeHash.prefix(20)))), ("type", CBORWriter.bytes([2])),
        ]
        return [("cdHash", CBORWriter.map(entries))]
    }

    /// Stands for the hash of the app's code directory.
    private static let codeHash = [UInt8](0..<32)
}
