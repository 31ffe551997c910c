import Chance
import Testing
import Vocabulary

@testable import Registry

@Suite("Questions of a process that has released its registry")
struct RegistryWordTests {
    private let key: KeyID
    private let other: KeyID

    init() throws {
        let digests = [[UInt8](repeating: 7, count: 32), [UInt8](repeating: 9, count: 32)]
        let keys = digests.map { KeyID(digest: $0.span) }
        key = try #require(keys[0])
        other = try #require(keys[1])
    }

    private var device: FoundDevice {
        get throws {
            let identity = DeviceIdentity(
                app: try #require(AppID("TEAMID1234.org.example.app")), platform: .iOS, environment: .development,
                hardwareKey: other, point: try #require(PublicPoint([4] + [UInt8](repeating: 3, count: 64))))
            return FoundDevice(
                id: try #require(DeviceID(12)), identity: identity, isRevoked: true, isBound: false,
                window: CounterWindow(), shown: ShownExtensions(rawValue: 3), posture: posture, isKeyListed: true)
        }
    }

    /// With every fact, though no platform has all of them.
    private var posture: Posture {
        var posture = Posture(platform: .iOS, environment: .development, enrolledAt: 1_000, admission: .token)
        posture.system = SystemVersion("17.4.1")
        posture.app = AppVersion(bundleVersion: "4.10.2")
        posture.distribution = 4
        posture.keyProtection = .secureEnclave
        posture.isCertificateKeyAttested = true
        posture.boot = .selfSigned
        posture.isBootloaderLocked = false
        posture.patchLevel = 202_601
        posture.vendorPatchLevel = 20_260_105
        posture.bootPatchLevel = 20_260_106
        posture.risk = 5
        posture.integrity = [.basic, .strong]
        posture.integrityAt = 1_001
        posture.attestedAt = 1_002
        posture.boundAt = 1_003
        posture.subject = Fingerprint([UInt8](0..<32))
        return posture
    }

    private var words: [RegistryWord] {
        get throws {
            let update = DeviceUpdate(
                id: try #require(DeviceID(7)), isRevoked: false, shown: [],
                posture: Posture(platform: .android, enrolledAt: 0), isKeyListed: true,
                bindings: [(key, true), (other, false)])
            return [
                .find(1, key), .found(2, nil), .found(.max, try device), .failed(3), .opened, .confirmed,
                .device(update),
                .barred([key, other]), .ended([key]),
            ]
        }
    }

    @Test("every message is read as it was sent")
    func roundTrip() throws {
        for word in try words {
            let read = try #require(RegistryWord(word.text))
            #expect(read.text == word.text)
        }
        let expected = try device
        guard case .found(_, let found?) = RegistryWord(RegistryWord.found(1, expected).text) else {
            Issue.record("no device was read")
            return
        }
        #expect(found.id.number == 12 && found.isRevoked && !found.isBound && found.isKeyListed)
        #expect(found.posture == posture && found.identity == expected.identity)
        var update = DeviceUpdate(
            id: expected.id, isRevoked: true, shown: [], posture: posture, isKeyListed: false, bindings: [(key, true)])
        guard case .device(let changed) = RegistryWord(RegistryWord.device(update).text) else {
            Issue.record("no change was read")
            return
        }
        #expect(changed.posture == posture && changed.isRevoked && changed.bindings.map(\.key) == [key])
        var phone = Posture(platform: .android, enrolledAt: 0)
        phone.app = AppVersion(code: 70_000_000_000)
        update = DeviceUpdate(
            id: expected.id, isRevoked: true, shown: [], posture: phone, isKeyListed: false, bindings: [])
        guard case .device(let changed) = RegistryWord(RegistryWord.device(update).text) else {
            Issue.record("no change was read")
            return
        }
        #expect(changed.posture == phone)
    }

    @Test("the form of an app id decides which platforms run the app")
    func platforms() throws {
        let (apple, android) = (try #require(AppID("TEAMID1234.org.example.app")), try #require(AppID("android:a.b")))
        #expect(Platform.standard(for: apple) == .iOS && Platform.standard(for: android) == .android)
        #expect(Platform.allCases.filter { $0.runs(android) } == [.android])
        #expect(Platform.allCases.filter { $0.runs(apple) } == Platform.allCases.filter { $0 != .android })
    }

    @Test("a message that is cut off, longer or altered is not read as another device")
    func altered() throws {
        for word in try words {
            let text = word.text
            for count in 0..<text.utf8.count {
                let cut = String(text.prefix(count))
                // Digits may be missing from a token, which then asks or answers for nobody.
                if let read = RegistryWord(cut) { #expect(read.text == cut) }
            }
            #expect(
                RegistryWord(text + " ") == nil && RegistryWord(text + " x") == nil && RegistryWord(" " + text) == nil)
        }
        let found = RegistryWord.found(1, try device).text
        for count in 0..<found.utf8.count { #expect(RegistryWord(String(found.prefix(count))) == nil) }
    }

    @Test("no text makes the reader trap")
    func random() throws {
        var chance = SeededGenerator(seed: RunSeed.tell())
        let words = try words.map(\.text)
        for _ in 0..<20_000 {
            var bytes = Array(words[words.indices.randomElement(using: &chance) ?? 0].utf8)
            for _ in 0..<Int.random(in: 1...4, using: &chance) {
                bytes[bytes.indices.randomElement(using: &chance) ?? 0] = .random(in: 0x20...0x7e, using: &chance)
            }
            _ = RegistryWord(String(decoding: bytes, as: UTF8.self))
        }
    }
}
