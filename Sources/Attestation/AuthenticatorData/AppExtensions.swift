internal import Encoding
public import Vocabulary

/// The extensions of authenticator data about the app. They exist since iOS 27 and macOS 27.
///
/// The signature covers them, so they are statements of Apple's system. Unknown extensions are skipped, because
/// refusing them would lock out all phones when Apple adds one. Their CBOR must still be valid.
public struct AppExtensions: Equatable, Sendable {
    public var validationCategory: ValidationCategory?
    /// The position of `CFBundleVersion` in UTF-8.
    public var bundleVersion: Range<Int>?
    public var codeDirectoryHash: CodeDirectoryHash?

    /// The measurement of the running code. Apps opt in to send it.
    public struct CodeDirectoryHash: Equatable, Sendable {
        /// Apple's number of the hash function. 2 is SHA-256.
        public var type: UInt8
        /// The position of the hash: 32 bytes of SHA-256, or its first 20.
        public var hash: Range<Int>
    }

    /// Length limit of a code directory hash in bytes.
    private static let longestHash = 64

    /// Creates a value without extensions.
    public init() {}

    /// The extensions that a key must continue to show. The code measurement is not included, because apps may opt out
    /// of it.
    public var shown: ShownExtensions {
        var shown: ShownExtensions = []
        if validationCategory != nil { shown.insert(.validationCategory) }
        if bundleVersion != nil { shown.insert(.bundleVersion) }
        return shown
    }

    /// Parses one map from text to any value. Ranges count as the reader's do.
    ///
    /// A known extension of another form than Apple's is refused. If it were ignored, a policy would treat it as
    /// absent.
    init(_ reader: inout CBORReader, of bytes: Span<UInt8>) throws(AuthenticatorDataFault) {
        var hash: Range<Int>?
        var type: UInt8?
        do throws(CBORFault) {
            var map = try reader.beginMap()
            while let key = try reader.nextKey(&map) {
                guard case .text(let name) = key else { throw .unsupportedKey }
                switch Name(bytes.extracting(name)) {
                case .validationCategory:
                    validationCategory = Self.category(bytes.extracting(try reader.readBytes()))
                    guard validationCategory != nil else { throw .unexpectedType }
                case .bundleVersion: bundleVersion = try reader.readText()
                case .codeDirectoryHash: hash = try reader.readBytes()
                case .codeDirectoryType:
                    let range = try reader.readBytes()
                    guard range.count == 1 else { throw .unexpectedType }
                    type = bytes[range.lowerBound]
                case nil: try reader.skip()
                }
            }
        } catch {
            throw .extensions(error)
        }
        switch (type, hash) {
        case (nil, nil): break
        case (let type?, let hash?) where (1...Self.longestHash).contains(hash.count):
            codeDirectoryHash = CodeDirectoryHash(type: type, hash: hash)
        default: throw .codeDirectoryHash
        }
    }

    /// Parses four bytes in little-endian order, unlike all other fields of authenticator data.
    private static func category(_ bytes: Span<UInt8>) -> ValidationCategory? {
        guard bytes.count == 4 else { return nil }
        var value: UInt32 = 0
        for index in 0..<4 { value |= UInt32(bytes[index]) << UInt32(8 * index) }
        return ValidationCategory(rawValue: value)
    }

    private enum Name {
        case validationCategory
        case bundleVersion
        case codeDirectoryHash
        case codeDirectoryType

        init?(_ name: Span<UInt8>) {
            if name.spells("apple_validation_category_01") {
                self = .validationCategory
            } else if name.spells("apple_bundle_version_01") {
                self = .bundleVersion
            } else if name.spells("apple_cd_hash_hash_01") {
                self = .codeDirectoryHash
            } else if name.spells("apple_cd_hash_type_01") {
                self = .codeDirectoryType
            } else {
                return nil
            }
        }
    }
}

/// The reason why the system trusted the app at launch (Apple's `apple_validation_category_01`, since iOS 27 and macOS
/// 27).
///
/// It is a number instead of an enumeration, because Apple may add categories. A policy refuses those it does not know.
public struct ValidationCategory: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// An executable of the operating system.
    public static let operatingSystem = ValidationCategory(rawValue: 1)
    public static let testFlight = ValidationCategory(rawValue: 2)
    /// Signed for development.
    public static let development = ValidationCategory(rawValue: 3)
    public static let appStore = ValidationCategory(rawValue: 4)
    /// Enterprise or ad hoc distribution.
    public static let enterprise = ValidationCategory(rawValue: 5)
    public static let developerID = ValidationCategory(rawValue: 6)
    public static let other = ValidationCategory(rawValue: 10)
}
