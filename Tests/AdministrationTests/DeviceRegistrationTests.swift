import Cryptography
import Foundation
import Registry
import Testing
import Vocabulary

@testable import Administration

@Suite("Keys in the forms operators have")
struct DeviceKeyTests {
    private let library: LibraryContext
    private let key: PrivateKey
    private let point: [UInt8]

    init() throws {
        library = try LibraryContext()
        key = try PrivateKey.generateP256(library)
        point = try #require(key.publicKey.uncompressedPoint)
    }

    private func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    private let prefix: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    @Test("point, SubjectPublicKeyInfo, PEM and certificate give the same key and fingerprint")
    func forms() throws {
        let expected = try #require(try key.publicKey.keyID(library))
        let issuer = try CertificateIssuer.selfSigned(commonName: "x", lifetime: 3600, key: key, library)
        let certificate = try issuer.certificate.pem()
        let public64 = base64(prefix + point)
        let publicPEM = Array("-----BEGIN PUBLIC KEY-----\n\(public64)\n-----END PUBLIC KEY-----\n".utf8)
        for made in [
            try DeviceKey(point: point, library), try DeviceKey(base64: base64(point), library),
            try DeviceKey(base64: public64, library), try DeviceKey(pem: try key.pem(), library),
            try DeviceKey(pem: publicPEM, library), try DeviceKey(pem: certificate, library),
            try DeviceKey(pem: certificate + key.pem(), library),
        ] {
            #expect(made.id == expected)
            #expect(made.point.bytes == point)
        }
    }

    @Test("a point off the curve is refused in every form")
    func offCurve() throws {
        var off = point
        off[64] ^= 1
        for text in [base64(off), base64(prefix + off)] {
            #expect(throws: DeviceKeyFault.offCurve) { _ = try DeviceKey(base64: text, library) }
        }
        #expect(throws: DeviceKeyFault.offCurve) {
            _ = try DeviceKey(base64: base64([0x04] + [UInt8](repeating: 0, count: 64)), library)
        }
    }

    @Test("other forms of a point and other text are refused")
    func otherForms() throws {
        let compressed = [0x02 | (point[64] & 1)] + point[1...32]
        let hybrid = [0x06 | (point[64] & 1)] + point[1...]
        for bytes in [compressed, hybrid, Array(point.dropLast()), point + [0], [], prefix + point + [0], prefix] {
            #expect(throws: DeviceKeyFault.noKey) { _ = try DeviceKey(base64: base64(bytes), library) }
        }
        let text = base64(point)
        for broken in [text + "\n", " " + text, String(text.dropLast()), text + "=", "!" + text.dropFirst()] {
            #expect(throws: DeviceKeyFault.noBase64) { _ = try DeviceKey(base64: broken, library) }
        }
        #expect(throws: DeviceKeyFault.noPEM) { _ = try DeviceKey(pem: Array(text.utf8), library) }
    }

    @Test("a file with a certificate and a key that do not match is refused")
    func severalKeys() throws {
        let issuer = try CertificateIssuer.selfSigned(commonName: "x", lifetime: 3600, key: key, library)
        let both = try issuer.certificate.pem() + PrivateKey.generateP256(library).pem()
        #expect(throws: DeviceKeyFault.severalKeys) { _ = try DeviceKey(pem: both, library) }
    }
}

@Suite("A list of devices to register")
struct RegistrationListTests {
    private let library: LibraryContext
    private let key: String
    private let other: String

    init() throws {
        library = try LibraryContext()
        key = try Sample.key().base64
        other = try Sample.key().base64
    }

    private func list(_ lines: String...) throws -> RegistrationList {
        var list = RegistrationList(environments: [try Sample.app(): .simulator], library)
        for line in lines { list.append(line: Array(line.utf8)) }
        return list
    }

    private func line(_ hardware: String, _ certificate: String, app: String = "app", more: String = "") -> String {
        #"{"app_id":"ABCDE12345.org.example.\#(app)","public_key":"\#(hardware)","#
            + #""certificate_key":"\#(certificate)"\#(more)}"#
    }

    @Test("a line is an iOS device in its app's environment unless it says otherwise")
    func good() throws {
        let list = try list(line(key, other), line(other, key, more: #","platform":"macos""#))
        #expect(list.faults.isEmpty)
        #expect(list.registrations.map(\.publicKey.base64) == [key, other])
        #expect(list.registrations.map(\.certificateKey.base64) == [other, key])
        #expect(list.registrations.map(\.platform) == [.iOS, .macOS])
        #expect(list.registrations.map(\.environment) == [.simulator, .simulator])
    }

    @Test("a line of an Android app is an Android device, and says nothing else")
    func android() throws {
        let app = try #require(AppID("android:org.example.app"))
        func registered(_ more: String) throws -> RegistrationList {
            var list = RegistrationList(environments: [app: .production], library)
            let text =
                #"{"app_id":"\#(app)","public_key":"\#(key)","certificate_key":"\#(other)"\#(more)}"#
            list.append(line: Array(text.utf8))
            return list
        }
        for more in ["", #","platform":"android""#] {
            #expect(try registered(more).registrations.map(\.platform) == [.android])
        }
        #expect(
            try registered(#","platform":"ios""#).faults.map(\.reason)
                == ["The member 'platform' is not that of the app 'android:org.example.app'."])
        let iPhone = try list(line(key, other, more: #","platform":"android""#))
        #expect(iPhone.faults.map(\.line) == [1] && iPhone.registrations.isEmpty)
    }

    @Test("every faulty line is reported with its reason, and the correct lines are not")
    func faults() throws {
        let third = try Sample.key().base64
        let list = try list(
            line(key, other), "", "{}", line("AAAA", third), line(third, third, app: "other"), line(third, third),
            line(try Sample.key().base64, try Sample.key().base64, more: #","environment":"production""#),
            line(try Sample.key().base64, try Sample.key().base64, more: #","platform":"iOS""#), "[1]", "{} {}")
        #expect(list.faults.map(\.line) == [2, 3, 4, 5, 7, 8, 9, 10])
        for (fault, word) in zip(
            list.faults,
            ["JSON", "app_id", "public_key", "is not configured", "environment", "platform", "JSON", "JSON"])
        {
            #expect(fault.reason.contains(word) || fault.reason.lowercased().contains(word), "\(fault)")
        }
        #expect(list.registrations.count == 2)
    }

    @Test("a key that occurs in two lines is a fault that names the other line")
    func duplicates() throws {
        let third = try Sample.key().base64
        let list = try list(line(key, other), line(third, other), line(key, third), line(key, other))
        #expect(
            list.faults == [
                .init(line: 2, reason: "The certificate key is already in line 1."),
                .init(line: 3, reason: "The hardware key is already in line 1."),
                .init(line: 4, reason: "The hardware key is already in line 3."),
            ])
    }

    @Test("a line longer than any device's is refused without parsing")
    func length() throws {
        let padding = String(repeating: " ", count: RegistrationList.lineLimit)
        let list = try list(line(key, other) + padding)
        #expect(list.faults.map(\.reason) == ["The line is longer than 2048 bytes."])
    }
}
