import Cryptography
import Registry
import Testing
import Vocabulary

@testable import Administration

@Suite("A list of devices to be registered")
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

    @Test("a line is a device of iOS, unless it says otherwise, in the environment its app is configured for")
    func good() throws {
        let list = try list(line(key, other), line(other, key, more: #","platform":"android""#))
        #expect(list.faults.isEmpty)
        #expect(list.registrations.map(\.publicKey.base64) == [key, other])
        #expect(list.registrations.map(\.certificateKey.base64) == [other, key])
        #expect(list.registrations.map(\.platform) == [.iOS, .android])
        #expect(list.registrations.map(\.environment) == [.simulator, .simulator])
    }

    @Test("every bad line is named, with its reason, and the good ones between them are none of the faults")
    func faults() throws {
        let third = try Sample.key().base64
        let list = try list(
            line(key, other), "", "{}", line("AAAA", third), line(third, third, app: "other"), line(third, third),
            line(try Sample.key().base64, try Sample.key().base64, more: #","environment":"production""#),
            line(try Sample.key().base64, try Sample.key().base64, more: #","platform":"iOS""#), "[1]", "{} {}")
        #expect(list.faults.map(\.line) == [2, 3, 4, 5, 7, 8, 9, 10])
        for (fault, word) in zip(
            list.faults, ["JSON", "app_id", "public_key", "no app", "environment", "platform", "JSON", "JSON"])
        {
            #expect(fault.reason.contains(word) || fault.reason.lowercased().contains(word), "\(fault)")
        }
        #expect(list.registrations.count == 2)
    }

    @Test("a key stands in one line only, and the other one is named")
    func duplicates() throws {
        let third = try Sample.key().base64
        let list = try list(line(key, other), line(third, other), line(key, third), line(key, other))
        #expect(
            list.faults == [
                .init(line: 2, reason: "The certificate key stands in line 1 already."),
                .init(line: 3, reason: "The hardware key stands in line 1 already."),
                .init(line: 4, reason: "The hardware key stands in line 3 already."),
            ])
    }

    @Test("a line beyond any device's length is refused unread")
    func length() throws {
        let padding = String(repeating: " ", count: RegistrationList.lineLimit)
        let list = try list(line(key, other) + padding)
        #expect(list.faults.map(\.reason) == ["The line is longer than 2048 bytes."])
    }
}
