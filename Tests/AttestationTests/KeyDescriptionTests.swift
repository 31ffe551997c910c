import Attestation
import Chance
import DeviceSimulator
import Encoding
import TestVectors
import Testing

/// The form of a key description: what genuine phones send is read, everything else is refused, and nothing traps.
@Suite("Key descriptions")
struct KeyDescriptionTests {
    private typealias Forgery = KeyDescriptionForgery
    private typealias Tag = AuthorizationList.Tag

    private func parse(_ bytes: [UInt8]) -> Result<KeyDescription, DERFault> {
        let span = bytes.span
        do throws(DERFault) { return .success(try KeyDescription(span)) } catch { return .failure(error) }
    }

    private func fault(_ change: (inout Forgery) -> Void) -> DERFault? {
        var forgery = Forgery()
        change(&forgery)
        return parse(forgery.der).failure
    }

    private func description(_ change: (inout Forgery) -> Void = { _ in }) throws -> KeyDescription {
        var forgery = Forgery()
        change(&forgery)
        return try parse(forgery.der).get()
    }

    @Test("all values are read")
    func values() throws {
        let found = try description()
        #expect(found.attestationVersion == 300 && found.keyMintVersion == 300)
        #expect(
            found.attestationSecurityLevel == .trustedEnvironment && found.keyMintSecurityLevel == .trustedEnvironment)
        #expect(found.attestationChallenge == [UInt8](repeating: 7, count: 32))
        let hardware = found.hardwareEnforced
        #expect(hardware.numbers(.purpose) == [2, 3] && hardware.number(.algorithm) == 3)
        #expect(hardware.number(.ecCurve) == 1 && hardware.number(.origin) == 0)
        #expect(hardware.values[Tag(503)] == .flag)
        #expect(hardware.number(.osPatchLevel) == 202_602 && hardware.number(.vendorPatchLevel) == 20_260_205)
        let root = try #require(hardware.rootOfTrust)
        #expect(root.isLocked && root.bootState == .verified)
        #expect(root.verifiedBootKey == [UInt8](repeating: 1, count: 32))
        #expect(root.verifiedBootHash == [UInt8](repeating: 2, count: 32))
        let application = try #require(found.softwareEnforced.application)
        #expect(application.packages.map(\.name) == [Forgery.package])
        #expect(application.packages.map(\.version) == [1042])
        #expect(application.signingCertificates == [Forgery.signer])
        #expect(found.softwareEnforced.number(.creationDateTime) == 1_790_000_000_000)
    }

    // MARK: - Forms that genuine phones send

    @Test("a BOOLEAN of any value but zero is true")
    func boolean() throws {
        for byte in UInt8.min...UInt8.max {
            let found = try description { $0.setHardware(704, Forgery.rootOfTrust(isLocked: byte)) }
            #expect(found.hardwareEnforced.rootOfTrust?.isLocked == (byte != 0))
        }
    }

    @Test("tags, and members of sets, may be in any order")
    func order() throws {
        var generator = SeededGenerator(seed: RunSeed.tell())
        let expected = try description()
        for _ in 0..<100 {
            let found = try description { forgery in
                forgery.hardware.shuffle(using: &generator)
                forgery.software.shuffle(using: &generator)
            }
            #expect(found == expected)
        }
        let purposes = try description { $0.setHardware(1, Forgery.numbers([3, 7, 2, 2])) }
        #expect(purposes.hardwareEnforced.numbers(.purpose) == [3, 7, 2, 2])
    }

    @Test("a root of trust may have three members, and patch levels of vendor and boot may be absent")
    func older() throws {
        let found = try description { forgery in
            forgery.setHardware(704, Forgery.rootOfTrust(hash: nil))
            forgery.setHardware(718, nil)
            forgery.setHardware(719, nil)
        }
        #expect(found.hardwareEnforced.rootOfTrust?.verifiedBootHash == nil)
        #expect(found.hardwareEnforced.number(.vendorPatchLevel) == nil)
    }

    @Test("later versions and unknown tags are read alike")
    func unknown() throws {
        let found = try description { forgery in
            forgery.attestationVersion = 100_000
            forgery.keyMintVersion = .max
            forgery.setHardware(11, Forgery.number(1))
            forgery.setHardware(999, DERWriter.sequence([5, 0], [1, 1, 3]))
            forgery.setHardware(16_000, DERWriter.integer([UInt8](repeating: 0x7f, count: 3000)))
        }
        #expect(found.keyMintVersion == .max)
        #expect(found.hardwareEnforced.values[Tag(11)] == .number(1))
        #expect(found.hardwareEnforced.values[Tag(999)] == .withheld)
        #expect(found.hardwareEnforced.values[Tag(16_000)] == .withheld)
    }

    @Test("values that identify a phone are not kept")
    func identifiers() throws {
        let secret = Array("356938035643809".utf8)
        let found = try description { forgery in
            forgery.uniqueID = secret
            for tag in Array(710...717) + [723] { forgery.setHardware(UInt32(tag), DERWriter.octetString(secret)) }
            forgery.setSoftware(714, DERWriter.octetString(secret))
        }
        for tag in Array(710...717) + [723] {
            #expect(found.hardwareEnforced.values[Tag(UInt32(tag))] == .withheld)
        }
        #expect(found.softwareEnforced.values[Tag(714)] == .withheld)
        #expect(!"\(found)".contains("\(secret)"))
    }

    // MARK: - Forms that none sends

    @Test("a length, an integer or a tag that is not in its shortest form is refused")
    func notShortest() {
        #expect(fault { $0.setHardware(2, [2, 2, 0, 3]) } == .notShortest)
        #expect(fault { $0.setHardware(2, [2, 0x81, 1, 3]) } == .notShortest)
        #expect(fault { $0.setHardware(1, [0x31, 0x81, 3, 2, 1, 2]) } == .notShortest)
        #expect(fault { $0.setHardware(1, [0x31, 0x80, 2, 1, 2, 0, 0]) } == .indefiniteLength)
        #expect(fault { $0.setHardware(2, [2, 0]) } == .unexpectedValue)
        let der = Forgery().der
        #expect(parse([0x30, 0x83, 0] + der[2...]).failure == .notShortest)
        #expect(parse([0x30, 0x80] + der[4...] + [0, 0]).failure == .indefiniteLength)
        // [2] with a long tag.
        #expect(list([0xbf, 2, 3, 2, 1, 3]) == .notShortest)
        #expect(list([0xbf, 0x80, 0x7f, 3, 2, 1, 3]) == .notShortest)
    }

    /// Returns the fault of a description with these bytes as its only hardware-enforced properties.
    private func list(_ content: [UInt8]) -> DERFault? {
        let start = Forgery()
        var empty = start
        empty.software = []
        empty.hardware = []
        // Both lists are empty sequences at the end.
        let head = Array(empty.der[2...].dropLast(2))
        return parse(DERWriter.item([0x30], head + DERWriter.item([0x30], content))).failure
    }

    @Test("a value of another type is refused")
    func types() {
        #expect(list([]) == nil)
        #expect(list([2, 1, 3]) == .unexpectedTag)
        #expect(list([0x82, 1, 3]) == .unexpectedTag)
        #expect(list([0xe2, 3, 2, 1, 3]) == .unexpectedTag)
        for tag: UInt32 in [2, 3, 10, 701, 702, 705, 706, 718, 719] {
            #expect(fault { $0.setHardware(tag, DERWriter.octetString([3])) } == .unexpectedTag, "\(tag)")
            #expect(fault { $0.setHardware(tag, [10, 1, 3]) } == .unexpectedTag, "\(tag)")
            #expect(fault { $0.setHardware(tag, []) } == .truncated, "\(tag)")
            #expect(fault { $0.setHardware(tag, Forgery.number(3) + Forgery.null) } == .trailingBytes, "\(tag)")
        }
        #expect(fault { $0.setHardware(1, Forgery.number(2)) } == .unexpectedTag)
        #expect(fault { $0.setHardware(600, Forgery.number(1)) } == .unexpectedTag)
        #expect(fault { $0.setHardware(600, [5, 1, 0]) } == .unexpectedValue)
        #expect(fault { $0.setHardware(704, Forgery.null) } == .unexpectedTag)
        #expect(fault { $0.setHardware(704, Forgery.rootOfTrust(state: 4)) } == .unexpectedValue)
        #expect(fault { $0.setHardware(704, Forgery.rootOfTrust() + [5, 0]) } == .trailingBytes)
        let noBoolean = DERWriter.sequence(DERWriter.octetString([1]), [1, 0], [10, 1, 0])
        #expect(fault { $0.setHardware(704, noBoolean) } == .unexpectedValue)
        #expect(fault { $0.setSoftware(709, DERWriter.sequence()) } == .unexpectedTag)
        #expect(fault { $0.setSoftware(709, DERWriter.octetString([])) } == .truncated)
        #expect(fault { $0.setSoftware(709, Forgery.application([("\u{e9}", 1)], [])) } == nil)
        let noText = DERWriter.octetString(
            DERWriter.sequence(
                DERWriter.set(DERWriter.sequence(DERWriter.octetString([0xff]), Forgery.number(1))), DERWriter.set()))
        #expect(fault { $0.setSoftware(709, noText) } == .unexpectedValue)
    }

    @Test("unknown security levels and further members are refused")
    func outer() {
        #expect(fault { $0.attestationLevel = 3 } == .unexpectedValue)
        #expect(fault { $0.keyMintLevel = 0xff } == .unexpectedValue)
        #expect(fault { $0.further = Forgery.null } == .trailingBytes)
        #expect(parse([]).failure == .truncated)
        #expect(parse(Forgery().der + [0]).failure == .trailingBytes)
        #expect(parse(DERWriter.octetString(Forgery().der)).failure == .unexpectedTag)
    }

    @Test("a tag that stands twice in a list is refused")
    func twice() {
        #expect(fault { $0.hardware.append(.init(702, Forgery.number(0))) } == .unexpectedValue)
        #expect(fault { $0.hardware.insert(.init(702, Forgery.number(2)), at: 0) } == .unexpectedValue)
        #expect(fault { $0.software += [.init(999, Forgery.null), .init(999, Forgery.null)] } == .unexpectedValue)
        // Each list has its own tags.
        #expect(fault { $0.software.append(.init(702, Forgery.number(0))) } == nil)
    }

    // MARK: - Enormous values

    @Test("integers have up to 64 bits, and negative ones are refused")
    func integers() throws {
        for tag: UInt32 in [2, 3, 701, 702, 706] {
            let most = try description { $0.setHardware(tag, Forgery.number(.max)) }
            #expect(most.hardwareEnforced.number(Tag(tag)) == .max)
            for value in [[1] + [UInt8](repeating: 0, count: 8), [UInt8](repeating: 0x7f, count: 7000)] {
                #expect(fault { $0.setHardware(tag, DERWriter.integer(value)) } == .unexpectedValue)
                #expect(fault { $0.setHardware(1, DERWriter.set(DERWriter.integer(value))) } == .unexpectedValue)
            }
            #expect(fault { $0.setHardware(tag, [2, 1, 0xff]) } == .unexpectedValue)
        }
        #expect(fault { $0.setHardware(2, [2, 0x84, 0xff, 0xff, 0xff, 0xff]) } == .truncated)
        #expect(fault { $0.setHardware(2, [2, 0xff]) } == .truncated)
    }

    @Test("lists and values are bounded")
    func bounds() {
        func entries(_ count: Int) -> [Forgery.Entry] {
            (0..<count).map { Forgery.Entry(2000 + UInt32($0), Forgery.null) }
        }
        #expect(fault { $0.hardware = entries(64) } == nil)
        #expect(fault { $0.hardware = entries(65) } == .unexpectedValue)
        #expect(fault { $0.software = entries(65) } == .unexpectedValue)
        for tag: UInt32 in [1, 4, 5, 6, 203] {
            #expect(fault { $0.setHardware(tag, Forgery.numbers(.init(repeating: 2, count: 16))) } == nil)
            #expect(fault { $0.setHardware(tag, Forgery.numbers(.init(repeating: 2, count: 17))) } == .unexpectedValue)
        }
        func application(_ packages: Int, _ signers: Int) -> DERFault? {
            fault {
                $0.setSoftware(
                    709,
                    Forgery.application(
                        .init(repeating: ("a", 1), count: packages), .init(repeating: [1], count: signers)))
            }
        }
        #expect(application(64, 64) == nil)
        #expect(application(65, 1) == .unexpectedValue)
        #expect(application(1, 65) == .unexpectedValue)
        let long = String(repeating: "a", count: 2048)
        #expect(fault { $0.setSoftware(709, Forgery.application([(long, 1)], [])) } == .unexpectedValue)
        let key = [UInt8](repeating: 1, count: 513)
        #expect(fault { $0.setHardware(704, Forgery.rootOfTrust(key: Array(key.dropLast()))) } == nil)
        #expect(fault { $0.setHardware(704, Forgery.rootOfTrust(key: key)) } == .unexpectedValue)
        #expect(fault { $0.setHardware(704, Forgery.rootOfTrust(hash: key)) } == .unexpectedValue)
    }

    @Test("cut off anywhere, a description is refused")
    func truncated() {
        let der = Forgery().der
        for count in der.indices { #expect(parse(Array(der[..<count])).failure != nil) }
        // Also with lengths that fit, as far as the cut leaves whole lists.
        let content = Array(der[4...])
        for count in content.indices {
            #expect(parse(DERWriter.item([0x30], Array(content[..<count]))).failure != nil)
        }
    }

    @Test("with any byte replaced, a description is read or refused, and never traps")
    func replaced() {
        var generator = SeededGenerator(seed: RunSeed.tell())
        let der = Forgery().der
        var read = 0
        for position in der.indices {
            for _ in 0..<32 {
                var other = der
                other[position] = .random(in: 0...255, using: &generator)
                if parse(other).failure == nil { read += 1 }
            }
        }
        // Contents of values, such as the challenge, are free.
        #expect(read > 0)
    }
}
