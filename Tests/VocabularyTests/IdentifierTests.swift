import Testing
import Vocabulary

@Suite("App ids")
struct AppIDTests {
    @Test(
        "the forms that Apple signs are app ids and keep their text",
        arguments: [
            "0352187391.com.apple.example_app_attest", "1363896240.5", "V8H6LQ9448.io.uebelacker.AppAttestExample",
            "6MURL8TA57.de.vincent-haupert.apple-appattest-poc", "ABCDE12345." + String(repeating: "b", count: 155),
        ])
    func accepted(_ text: String) throws {
        #expect(try #require(AppID(text)).description == text)
    }

    @Test(
        "every other text is refused",
        arguments: [
            "", ".", "ABCDE12345", "ABCDE12345.", "abcde12345.org.example", "ABCDE1234.org.example",
            "ABCDE123456.org.example", "ABCDE12345..example", "ABCDE12345.org.", "ABCDE12345.org.ex ample",
            "ABCDE12345.org.exämple", "ABCDE12345.org.ex\nample", "ABCDE12345.org.ex\u{0}",
            "ABCDE12345." + String(repeating: "b", count: 156), "АBCDE1234.org.example",
        ])
    func refused(_ text: String) {
        #expect(AppID(text) == nil)
    }

    @Test(
        "Android's package names are app ids after their prefix",
        arguments: [
            "android:org.example.app", "android:a.b", "android:Org.Example_2.app_", "android:de.gematik.android.app",
            "android:a." + String(repeating: "b", count: 221),
        ])
    func acceptedForAndroid(_ text: String) throws {
        let app = try #require(AppID(text))
        #expect(app.description == text && app.isAndroid)
    }

    @Test(
        "other texts are no package names",
        arguments: [
            "android:", "android:app", "android:.app", "android:org.", "android:org..app", "android:1org.app",
            "android:org.2app", "android:_org.app", "android:org._app", "android:org.my-app", "android:org.ex ample",
            "android:org.exämple", "android:org.app\n", "Android:org.example.app", "android.org.example.app",
            "android:android:org.example", "org.example.app", "android:ABCDE12345.org.exa-mple", "ios:org.example.app",
            "android:a." + String(repeating: "b", count: 222),
        ])
    func refusedForAndroid(_ text: String) {
        #expect(AppID(text) == nil)
    }

    @Test("the form tells the system, so no app id is of both")
    func systems() throws {
        #expect(try #require(AppID("ABCDE12345.org.example.app")).isAndroid == false)
        #expect(try #require(AppID("ABCDE12345.android")).isAndroid == false)
        #expect(try #require(AppID("android:ABCDE12345.org.example.app")).isAndroid)
    }

    @Test("app ids that differ in case are different")
    func caseCounts() {
        #expect(AppID("ABCDE12345.org.example") != AppID("ABCDE12345.org.Example"))
    }
}

@Suite("Serial numbers of certificates")
struct CertificateSerialTests {
    private let random = (0..<16).map { UInt8($0 &* 17) }

    @Test("our own serial number is a one and any 16 random bytes")
    func own() {
        #expect(CertificateSerial(random: random)?.bytes == [1] + random)
        #expect(CertificateSerial(random: random)?.description == "0100112233445566778899AABBCCDDEEFF")
        #expect(CertificateSerial(random: Array(random.dropLast())) == nil)
        #expect(CertificateSerial(random: random + [0]) == nil)
    }

    @Test("a serial number has 1 to 20 bytes in DER without a leading zero")
    func octets() {
        #expect(CertificateSerial([7])?.bytes == [7])
        #expect(CertificateSerial([]) == nil)
        #expect(CertificateSerial([0, 7]) == nil)
        let rest = [UInt8](repeating: 0, count: 19)
        #expect(CertificateSerial([0x7F] + rest) != nil)
        #expect(CertificateSerial([0x80] + rest) == nil)
        #expect(CertificateSerial([0x80] + rest.dropLast()) != nil)
        #expect(CertificateSerial([1] + rest + [0]) == nil)
    }

    @Test("a serial number has one spelling: upper-case pairs of digits")
    func text() {
        for serial in [CertificateSerial(random: random), CertificateSerial([7])].compactMap({ $0 }) {
            #expect(CertificateSerial(serial.description) == serial)
        }
        let long = String(repeating: "11", count: 21)
        for text in ["", "0", "7", "0007", "ab", "0G", " 07", "07 ", "-7", "0x07", long] {
            #expect(CertificateSerial(text) == nil)
        }
    }
}

@Suite("System versions")
struct SystemVersionTests {
    @Test("are compared number by number, and missing numbers are 0")
    func order() throws {
        let ascending = try [
            "0", "1.0.1", "9.2047.2047", "17", "17.0.1", "17.4", "17.4.1", "17.10", "18", "27.0.1", "1023",
        ].map {
            try #require(SystemVersion($0), "\($0)")
        }
        #expect(ascending == ascending.sorted())
        #expect(Set(ascending).count == ascending.count)
        #expect(SystemVersion("17") == SystemVersion("17.0.0"))
        #expect(SystemVersion("17.4") == SystemVersion("17.04.0"))
    }

    @Test("equal versions have one text")
    func text() {
        let texts = [
            "17": "17.0", "17.0.0": "17.0", "17.4": "17.4", "17.4.0": "17.4", "17.4.1": "17.4.1", "017.10": "17.10",
            "1023.2047.2047": "1023.2047.2047", "0": "0.0",
        ]
        for (text, expected) in texts { #expect(SystemVersion(text)?.description == expected) }
        for text in texts.values { #expect(SystemVersion(text)?.description == text) }
    }

    @Test(
        "anything else is none",
        arguments: [
            "", ".", "17.", ".4", "17..4", "17.4.1.0", "17,4", "17.4b", " 17", "17 ", "-1", "+1", "v17", "17.4\n",
            "1e1",
            "1024", "17.2048", "17.4.2048", "00017", "17.99999999999999999999", "１７",
        ])
    func refused(_ text: String) {
        #expect(SystemVersion(text) == nil)
    }

    @Test("are trivial, and take 4 bytes")
    func size() {
        #expect(MemoryLayout<SystemVersion>.size == 4)
        #expect(_isPOD(SystemVersion?.self))
    }
}
