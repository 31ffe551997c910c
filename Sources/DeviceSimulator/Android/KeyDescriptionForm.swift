internal import Encoding

/// The content of a key description, the extension by which a phone's keystore says what a key is. It may be malformed.
package struct KeyDescriptionForm {
    /// An entry of an authorization list: a tag and an encoded value.
    package struct Entry {
        package var tag: UInt32
        package var value: [UInt8]

        package init(_ tag: UInt32, _ value: [UInt8]) {
            self.tag = tag
            self.value = value
        }
    }

    package static let identifier = "1.3.6.1.4.1.11129.2.1.17"

    package var attestationVersion: UInt64 = 300
    package var attestationLevel: UInt8
    package var keyMintVersion: UInt64 = 300
    package var keyMintLevel: UInt8
    package var challenge: [UInt8]
    package var uniqueID: [UInt8] = []
    package var software: [Entry]
    package var hardware: [Entry]
    /// Items after the two lists.
    package var further: [UInt8] = []

    /// Creates the description of a key for signatures on P-256, generated in hardware.
    ///
    /// - Parameters:
    ///   - phone: The phone, whose bootloader is locked.
    ///   - created: When the key was generated, in milliseconds since 1970.
    package init(of phone: AndroidPhone, challenge: [UInt8], created: UInt64) {
        attestationLevel = phone.securityLevel.rawValue
        keyMintLevel = phone.securityLevel.rawValue
        self.challenge = challenge
        software = [
            Entry(701, Self.number(created)),
            Entry(709, Self.application([(phone.package, phone.version)], [phone.signingCertificate])),
        ]
        let day = phone.patchLevel * 100 + 1
        hardware = [
            Entry(1, Self.numbers([2])), Entry(2, Self.number(3)), Entry(3, Self.number(256)),
            Entry(5, Self.numbers([4])), Entry(10, Self.number(1)), Entry(503, Self.null), Entry(702, Self.number(0)),
            Entry(704, Self.rootOfTrust()), Entry(705, Self.number(phone.osVersion)),
            Entry(706, Self.number(phone.patchLevel)), Entry(718, Self.number(day)), Entry(719, Self.number(day)),
        ]
    }

    package static let null: [UInt8] = [5, 0]

    package static func number(_ value: UInt64) -> [UInt8] {
        DERWriter.integer((0..<8).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) })
    }

    package static func numbers(_ values: [UInt64]) -> [UInt8] { DERWriter.item([0x31], values.flatMap(number)) }

    /// Encodes how the phone was started.
    ///
    /// - Parameters:
    ///   - isLocked: The octet of the BOOLEAN.
    ///   - state: 0 is `Verified`.
    ///   - hash: Nil up to version 2.
    package static func rootOfTrust(
        isLocked: UInt8 = 0xff, state: UInt8 = 0, key: [UInt8] = .init(repeating: 1, count: 32),
        hash: [UInt8]? = .init(repeating: 2, count: 32)
    ) -> [UInt8] {
        DERWriter.sequence(
            DERWriter.octetString(key), [1, 1, isLocked], [10, 1, state], hash.map(DERWriter.octetString) ?? [])
    }

    /// Encodes the app that asked for the key: names and version codes of packages, hashes of signing certificates.
    package static func application(_ packages: [(String, UInt64)], _ signers: [[UInt8]]) -> [UInt8] {
        DERWriter.octetString(
            DERWriter.sequence(
                DERWriter.item(
                    [0x31],
                    packages.flatMap { DERWriter.sequence(DERWriter.octetString(Array($0.0.utf8)), number($0.1)) }),
                DERWriter.item([0x31], signers.flatMap(DERWriter.octetString))))
    }

    package var der: [UInt8] {
        func list(_ entries: [Entry]) -> [UInt8] {
            DERWriter.item([0x30], entries.flatMap { DERWriter.explicit($0.tag, $0.value) })
        }
        return DERWriter.sequence(
            Self.number(attestationVersion), [10, 1, attestationLevel], Self.number(keyMintVersion),
            [10, 1, keyMintLevel], DERWriter.octetString(challenge), DERWriter.octetString(uniqueID), list(software),
            list(hardware), further)
    }

    /// Replaces the value of a tag, or adds the tag. Nil removes it.
    package mutating func setHardware(_ tag: UInt32, _ value: [UInt8]?) { Self.set(tag, value, in: &hardware) }
    package mutating func setSoftware(_ tag: UInt32, _ value: [UInt8]?) { Self.set(tag, value, in: &software) }

    private static func set(_ tag: UInt32, _ value: [UInt8]?, in list: inout [Entry]) {
        let position = list.firstIndex { $0.tag == tag } ?? list.count
        list.removeAll { $0.tag == tag }
        if let value { list.insert(Entry(tag, value), at: position) }
    }
}
