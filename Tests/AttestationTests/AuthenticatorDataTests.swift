import Attestation
import Encoding
import TestVectors
import Testing

@Suite("Authenticator data")
struct AuthenticatorDataTests {
    private static let rpIDHash: [UInt8] = Array(100..<132)

    private func read(_ bytes: [UInt8], before: Int = 0) -> Result<AuthenticatorData, AuthenticatorDataFault> {
        let surrounded = [UInt8](repeating: 0xff, count: before) + bytes + [0xff, 0xff]
        let span = surrounded.span
        do throws(AuthenticatorDataFault) {
            return .success(try AuthenticatorData(assertion: span, in: before..<(before + bytes.count)))
        } catch {
            return .failure(error)
        }
    }

    private func fixed(flags: UInt8 = 0x40, counter: String = "00000001") -> [UInt8] {
        Self.rpIDHash + [flags] + hex(counter)
    }

    private func fault(extensions: [UInt8]) -> AuthenticatorDataFault? {
        if case .failure(let fault) = read(fixed(flags: 0xc0) + extensions) { fault } else { nil }
    }

    private func fault(_ entries: [(String, [UInt8])]) -> AuthenticatorDataFault? {
        fault(extensions: CBORWriter.map(entries))
    }

    @Test("37 bytes are enough, and the counter is big-endian", arguments: [0, 1, 40])
    func shortest(_ before: Int) throws {
        let data = try read(fixed(counter: "01020304"), before: before).get()
        #expect(data.counter == 0x0102_0304)
        #expect(data.flags == 0x40)
        #expect(data.range == before..<(before + 37))
        #expect(data.rpIDHash == before..<(before + 32))
        #expect(data.extensions == AppExtensions())
    }

    @Test("fewer than 37 bytes are too short", arguments: 0..<37)
    func tooShort(_ count: Int) {
        #expect(read(Array(fixed()[..<count])) == .failure(.tooShort))
    }

    @Test("the flags change no result", arguments: 0...255)
    func flags(_ flags: Int) throws {
        let flags = UInt8(flags)
        let plain = try read(fixed(flags: flags)).get()
        #expect(plain.flags == flags)
        #expect(plain.extensions == AppExtensions())
        let map = CBORWriter.map([("apple_validation_category_01", CBORWriter.bytes([4, 0, 0, 0]))])
        let extended = try read(fixed(flags: flags) + map).get()
        #expect(extended.extensions.validationCategory == .appStore)
    }

    @Test("the extensions are exactly one map", arguments: 0...255)
    func oneByteMore(_ byte: Int) {
        let result = read(fixed() + [UInt8(byte)])
        // a0 is the only single byte that is a complete map: the empty one.
        if byte == 0xa0 {
            #expect((try? result.get())?.extensions == AppExtensions())
        } else {
            guard case .failure(.extensions) = result else {
                Issue.record("\(byte) was taken for a map")
                return
            }
        }
    }

    @Test("bytes behind the map are refused")
    func trailing() {
        let map = CBORWriter.map([("apple_bundle_version_01", CBORWriter.text("1"))])
        #expect(fault(extensions: map) == nil)
        for byte: UInt8 in [0x00, 0xa0, 0xf6, 0xff] {
            #expect(fault(extensions: map + [byte]) == .extensions(.trailingBytes))
        }
        #expect(fault(extensions: map + map) == .extensions(.trailingBytes))
        for count in 1..<map.count {
            #expect(fault(extensions: Array(map[..<count])) == .extensions(.truncated))
        }
    }

    @Test("the extensions of Apple's 2026 sample are read")
    func sample() throws {
        let extensions = hex(
            """
            a2776170706c655f62756e646c655f76657273696f6e5f30316131
            781c6170706c655f76616c69646174696f6e5f63617465676f72795f30314401000000
            """)
        let bytes = fixed() + extensions
        let data = try read(bytes).get()
        #expect(data.extensions.validationCategory == .operatingSystem)
        #expect(data.extensions.bundleVersion.map { Array(bytes[$0]) } == Array("1".utf8))
        #expect(data.extensions.codeDirectoryHash == nil)
    }

    @Test("the validation category is little-endian, and unknown ones are returned")
    func category() throws {
        let map = CBORWriter.map([("apple_validation_category_01", CBORWriter.bytes([0x0a, 0x0b, 0x0c, 0x0d]))])
        let data = try read(fixed() + map).get()
        #expect(data.extensions.validationCategory?.rawValue == 0x0d0c_0b0a)
    }

    @Test("a known extension of another form is refused, not treated as absent")
    func forms() {
        let category = "apple_validation_category_01"
        for bytes: [UInt8] in [[], [4], [4, 0, 0], [4, 0, 0, 0, 0]] {
            #expect(fault([(category, CBORWriter.bytes(bytes))]) == .extensions(.unexpectedType))
        }
        #expect(fault([(category, [0x04])]) == .extensions(.unexpectedType))
        #expect(fault([(category, CBORWriter.text("abcd"))]) == .extensions(.unexpectedType))
        #expect(fault([("apple_bundle_version_01", CBORWriter.bytes([0x31]))]) == .extensions(.unexpectedType))
        #expect(fault([("apple_bundle_version_01", hex("61ff"))]) == .extensions(.textNotUTF8))
    }

    @Test("a code directory hash has 1 to 64 bytes and a type of one byte")
    func codeDirectoryHash() throws {
        let hash = ("apple_cd_hash_hash_01", CBORWriter.bytes([UInt8](repeating: 7, count: 32)))
        let type = ("apple_cd_hash_type_01", CBORWriter.bytes([2]))
        let bytes = fixed() + CBORWriter.map([type, hash])
        let found = try #require(try read(bytes).get().extensions.codeDirectoryHash)
        #expect(found.type == 2)
        #expect(Array(bytes[found.hash]) == [UInt8](repeating: 7, count: 32))

        #expect(fault([hash]) == .codeDirectoryHash)
        #expect(fault([type]) == .codeDirectoryHash)
        for count in [0, 65] {
            let other = ("apple_cd_hash_hash_01", CBORWriter.bytes([UInt8](repeating: 7, count: count)))
            #expect(fault([other, type]) == .codeDirectoryHash)
        }
        for other: [UInt8] in [CBORWriter.bytes([]), CBORWriter.bytes([2, 0]), [0x02]] {
            #expect(fault([hash, ("apple_cd_hash_type_01", other)]) == .extensions(.unexpectedType))
        }
    }

    @Test("unknown extensions are ignored, but must be strict CBOR and occur once")
    func unknown() {
        #expect(fault([("apple_new_01", [0xf5]), ("x", CBORWriter.map([("y", [0x80])]))]) == nil)
        #expect(fault([("x", [0x00]), ("x", [0x00])]) == .extensions(.duplicateKey))
        #expect(fault([("x", hex("9fff"))]) == .extensions(.indefiniteLength))
        #expect(fault([("x", hex("818181818181818100"))]) == .extensions(.tooDeep))
        #expect(fault(extensions: hex("a1 01 00")) == .extensions(.unsupportedKey))
        let version = ("apple_bundle_version_01", CBORWriter.text("1"))
        #expect(fault([version, version]) == .extensions(.duplicateKey))
    }
}
