import Cryptography
import Registry
import Testing
import Vocabulary

@testable import Administration

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
        let list = try list(line(key, other), line(other, key, more: #","platform":"android""#))
        #expect(list.faults.isEmpty)
        #expect(list.registrations.map(\.publicKey.base64) == [key, other])
        #expect(list.registrations.map(\.certificateKey.base64) == [other, key])
        #expect(list.registrations.map(\.platform) == [.iOS, .android])
        #expect(list.registrations.map(\.environment) == [.simulator, .simulator])
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
