import Chance
import Encoding
import Foundation
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry

@Suite("Export lines")
struct ExportLineTests {
    private func text(_ record: ExportRecord) -> String { String(decoding: ExportLine.encode(record), as: UTF8.self) }

    private func decode(_ text: String) throws -> ExportRecord { try ExportLine.decode(Array(text.utf8)[...]) }

    private func reason(_ text: String) -> String? {
        do {
            _ = try decode(text)
            return nil
        } catch {
            return "\(error)"
        }
    }

    private func hex(_ bytes: [UInt8]) -> String { Hexadecimal.encode(bytes) }

    @Test("services and tokens of a federation are read as they were written")
    func federation() throws {
        for record in [
            ExportSample.federationHead, .service(ExportSample.service), .federationToken(ExportSample.federationToken),
            ExportSample.end {
                $0.services = 1
                $0.federationTokens = 1
            },
        ] {
            #expect(try decode(text(record)) == record)
        }
        #expect(text(ExportSample.federationHead).contains(#""version":3,"#))
        let service = text(.service(ExportSample.service))
        #expect(reason(service.replacing("https://learn.example/token", with: "")) != nil)
        #expect(reason(service.replacing("00000000-", with: "")) != nil)
        let token = text(.federationToken(ExportSample.federationToken))
        #expect(reason(token.replacing(#""kind":"app""#, with: #""kind":"root""#)) != nil)
    }

    @Test("the lines are exactly those in the manual")
    func golden() {
        let identity = Fixture.identity(2)
        #expect(
            text(ExportSample.head) == """
                {"format":"attestgate-registry","version":2,"exported_at":1763800000,\
                "store":"000102030405060708090a0b0c0d0e0f","revocation_list":7,"tokens_refused_until":1763700000,\
                "secret_check":"\(hex(Fixture.fingerprint(3, kind: 9).bytes))"}
                """)
        #expect(
            text(ExportSample.firstHead) == """
                {"format":"attestgate-registry","version":1,"exported_at":1763800000,\
                "store":"000102030405060708090a0b0c0d0e0f","revocation_list":7,"tokens_refused_until":1763700000}
                """)
        guard case .device(let device) = ExportSample.fullDevice else { return }
        #expect(
            text(ExportSample.fullDevice) == """
                {"device":{"hardware_key":"\(Fixture.hardwareKey(2))","app":"ABCDE12345.org.example.app2","platform":"ios",\
                "environment":"production","point":"\(hex(identity.point.bytes))","registered_at":1,"activated_at":2,\
                "approved_at":3,"revoked_at":4,"subject":"\(hex(Fixture.subject(1).bytes))","shown_extensions":3,\
                "counter":{"highest":4294967295,"window":"\(hex(device.window.bits))"},"bindings":[\
                {"key":"\(Fixture.bindingKey(1))","created_at":5,"ends_at":6,"ended_at":7},\
                {"key":"\(Fixture.bindingKey(2))","created_at":8}],\
                "attestation":{"digest":"\(hex(Fixture.fingerprint(2, kind: 6).bytes))",\
                "certificate_key":"\(Fixture.bindingKey(1))","os_version":"17.4.1",\
                "bundle_version":"4.10","validation_category":4,"tag":"\(hex(Fixture.tag(1)))",\
                "phone":{"security_level":"tee","boot_state":"verified","bootloader_locked":1,\
                "boot_key":"\(String(repeating: "07", count: 32))","patch_level":202601,\
                "vendor_patch_level":20260105,"app_version":1,\
                "integrity":"MEETS_BASIC_INTEGRITY MEETS_DEVICE_INTEGRITY","integrity_at":1001,\
                "serials":[{"serial":"1f"},{"serial":"abc1"}]},"attested_at":8,"certificate_key_attested":0,"key_listed":1},\
                "receipt":{"content":"007fff","risk_metric":12,"created_at":9,"next_at":10,"asked_at":11,\
                "outcome":"unchanged","failures":2},\
                "signals":{"claimed_at":15,"content":"7b2261223a5b2262225d7d"}}}
                """)
        #expect(
            text(ExportSample.leastDevice).hasSuffix(
                #""registered_at":0,"shown_extensions":0,"counter":{"highest":0,"window":"\#(String(repeating: "f", count: 256))"},"bindings":[]}}"#
            ))
        #expect(
            ExportSample.all[3...].map(text) == [
                """
                {"certificate":{"serial":"\(hex(Fixture.serial(1).bytes))","key":"\(Fixture.bindingKey(2))","not_after":12}}
                """,
                #"{"used_token":{"id":"\#(hex(Fixture.token(1).id.bytes))","expires_at":2000}}"#,
                #"{"revoked_subject":{"subject":"\#(hex(Fixture.subject(1).bytes))","revoked_at":13}}"#,
                #"{"barred_key":{"key":"\#(Fixture.hardwareKey(9))","kind":"hardware","barred_at":14}}"#,
                """
                {"end":{"devices":2,"certificates":1,"used_tokens":1,"revoked_subjects":1,"barred_keys":1,\
                "sha256":"\(hex(Fixture.fingerprint(1, kind: 8).bytes))"}}
                """,
            ])
    }

    @Test("of programs that kept no system version are read, and a version has one spelling")
    func systemVersion() throws {
        let line = text(ExportSample.fullDevice)
        let earlier = line.replacingOccurrences(of: #","os_version":"17.4.1""#, with: "")
        guard case .device(let device) = try decode(earlier) else {
            Issue.record("not a device")
            return
        }
        #expect(device.attestation?.digest == Fixture.fingerprint(2, kind: 6))
        #expect(device.attestation?.systemVersion == nil)
        for other in ["17", "17.4.0", "017.4", "17.4.2048", "", "x"] {
            #expect(
                reason(line.replacingOccurrences(of: "17.4.1", with: other)) == "'os_version' has an unknown value",
                "\(other)")
        }
    }

    @Test("of programs that kept less of an attestation are read, and a bundle version has one spelling")
    func posture() throws {
        let line = text(ExportSample.fullDevice)
        let members = [
            #","bundle_version":"4.10""#, #","validation_category":4"#, #","attested_at":8"#,
            #","certificate_key_attested":0"#,
        ]
        let earlier = members.reduce(line) { $0.replacingOccurrences(of: $1, with: "") }
        guard case .device(let device) = try decode(earlier), let attestation = device.attestation else {
            Issue.record("not a device")
            return
        }
        #expect(attestation.app == ShownApp() && attestation.isCertificateKeyAttested == nil)
        #expect(attestation.attestedAt == nil && attestation.phone == Fixture.phone(1))
        for other in ["4.10.0", "04.10", "4.10.1.1", "4.65536", "", "x"] {
            #expect(
                reason(line.replacingOccurrences(of: #""4.10""#, with: "\"\(other)\""))
                    == "'bundle_version' has an unknown value", "\(other)")
        }
        #expect(reason(line.replacingOccurrences(of: #"category":4"#, with: #"category":256"#)) != nil)
    }

    @Test("signals may be missing, and have one spelling")
    func signals() throws {
        let line = text(ExportSample.fullDevice)
        let earlier = line.replacing(#","signals":{"claimed_at":15,"content":"7b2261223a5b2262225d7d"}"#, with: "")
        guard case .device(let device) = try decode(earlier) else {
            Issue.record("not a device")
            return
        }
        #expect(device.signals == nil && device.receipt != nil)
        // With a space, with a number that has a fraction, with the start of an escape sequence.
        for other in ["7b2261223a205b2262225d7d", "7b2261223a312e357d", "7b2261223a221b5b227d", ""] {
            #expect(reason(line.replacing("7b2261223a5b2262225d7d", with: other)) != nil, "\(other)")
        }
    }

    @Test("every line is JSON")
    func json() throws {
        for record in ExportSample.all {
            let object = try JSONSerialization.jsonObject(with: Data(ExportLine.encode(record)))
            #expect(object is [String: Any])
        }
    }

    @Test("a decoded line equals what was encoded", arguments: ExportSample.all)
    func roundTrip(_ record: ExportRecord) throws {
        #expect(try decode(text(record)) == record)
    }

    @Test("a line truncated anywhere, or one byte longer, is refused", arguments: ExportSample.all)
    func cut(_ record: ExportRecord) {
        let whole = text(record)
        for length in 0..<whole.utf8.count {
            #expect(reason(String(whole.prefix(length))) != nil, "taken when cut to \(length)")
        }
        for more in [" ", "}", "{}", "\u{0}"] { #expect(reason(whole + more) != nil) }
        #expect(reason(" " + whole) != nil)
    }

    @Test("every accepted line is encoded back to the same bytes")
    func canonical() {
        let seed = RunSeed.tell()
        var random = SeededGenerator(seed: seed)
        let letters = Array("\"{}[],:0123456789abcdefABCDEF \\\u{0}\n.+-eE".utf8)
        var taken = 0
        for round in 0..<20_000 {
            var line = ExportLine.encode(ExportSample.all[round % ExportSample.all.count])
            for _ in 0...Int.random(in: 0..<2, using: &random) {
                let place = Int.random(in: 0..<line.count, using: &random)
                let letter = letters[Int.random(in: 0..<letters.count, using: &random)]
                switch Int.random(in: 0..<3, using: &random) {
                case 0: line[place] = letter
                case 1: line.insert(letter, at: place)
                default: line.remove(at: place)
                }
            }
            guard let record = try? ExportLine.decode(line[...]) else { continue }
            taken += 1
            #expect(ExportLine.encode(record) == line, "seed \(seed), round \(round)")
        }
        // A digit for a digit is another value, and well-formed.
        #expect(taken > 1_000)
    }

    private static let hardwareKey = "\(Fixture.hardwareKey(2))"

    /// What stands in the full device, what stands there instead, and what is said of that.
    private static let alterations: [(String, String, String)] = [
        (#""hardware_key":"# + "\"\(hardwareKey)\",", "", "'hardware_key' is missing"),
        (hardwareKey, hardwareKey.uppercased() + "A", "'hardware_key' is not the right number of bytes"),
        (hardwareKey, String(hardwareKey.dropLast(2)), "'hardware_key' is not the right number of bytes"),
        (hardwareKey, String(hardwareKey.dropLast()), "'hardware_key' is not the right number of bytes"),
        ("ABCDE12345.org.example.app2", "org.example.app2", "'app' has an unknown value"),
        ("ABCDE12345.org.example.app2", #"ABCDE12345.org.example.app\u0032"#, "'app' has an unknown value"),
        (#""ios""#, #""symbian""#, "'platform' has an unknown value"),
        (#""ios""#, "7", "'platform' is not text"),
        (#""production""#, #""sandbox""#, "'environment' has an unknown value"),
        (#""point":"04"#, #""point":"05"#, "'point' is not the right number of bytes"),
        (#""registered_at":1"#, #""registered_at":-1"#, "'registered_at' is not a whole number"),
        (#""registered_at":1"#, #""registered_at":01"#, "'registered_at' is not a whole number"),
        (#""registered_at":1"#, #""registered_at":1.0"#, "is missing"),
        (#""registered_at":1"#, #""registered_at":1e3"#, "is missing"),
        (#""registered_at":1"#, #""registered_at":null"#, "'registered_at' is not a whole number"),
        (#""registered_at":1"#, #""registered_at":"1""#, "'registered_at' is not a whole number"),
        (#""registered_at":1"#, #""registered_at":253402300800"#, "'registered_at' is not a whole number"),
        (#""registered_at":1"#, #""registered_at":99999999999999999999"#, "'registered_at' is not a whole number"),
        (#""activated_at":2,"approved_at":3"#, #""approved_at":3,"activated_at":2"#, "is missing"),
        (
            #""shown_extensions":3"#, #""shown_extensions":256"#,
            "'shown_extensions' is not a whole number from 0 to 255"
        ),
        (#""highest":4294967295"#, #""highest":4294967296"#, "'highest' is not a whole number"),
        (#""window":""#, #""window":"00"#, "'window' is not the right number of bytes"),
        (#""counter":{"#, #""counters":{"#, "'counter' is missing"),
        (#""bindings":["#, #""bindings":{"#, "'bindings' is missing"),
        (#""ended_at":7}"#, #""ended_at":7},"#, "not a JSON object"),
        (#""ended_at":7}"#, #""ended_at":7,"by":"x"}"#, "a member is unknown"),
        (#""created_at":8}"#, #""created_at":8,"created_at":8}"#, "a member is unknown"),
        (#""content":"007fff""#, #""content":"007ff""#, "'content' is not the right number of bytes"),
        (#""outcome":"unchanged""#, #""outcome":"lost""#, "'outcome' has an unknown value"),
        (#""failures":2"#, #""failures":-2"#, "'failures' is not a whole number"),
    ]

    @Test("a malformed line is refused with the reason", arguments: alterations)
    func malformed(_ there: String, _ instead: String, _ said: String) throws {
        let good = text(ExportSample.fullDevice)
        let bad = good.replacing(there, with: instead)
        try #require(bad != good)
        let message = try #require(reason(bad))
        #expect(message.contains(said), "\(message)")
        // It may go to a terminal, and be somebody's.
        #expect(instead.count < 4 || !message.contains(instead))
    }

    @Test("other kinds, versions and programs are refused")
    func foreign() {
        #expect(reason("{}") == "not a line of an export")
        #expect(reason("") == "not a JSON object of an export")
        #expect(reason(#"{"devices":{}}"#) == "not a line of an export")
        let head = text(ExportSample.head)
        #expect(
            reason(head.replacing("attestgate-registry", with: "x")) == "not an export of an attestgate registry")
        #expect(
            reason(head.replacing(#""version":2"#, with: #""version":4"#))
                == "written in version 4 of the format; this program reads 1 to 3")
        #expect(
            reason(head.replacing(#""version":2"#, with: #""version":1"#))
                == "a member is unknown or in the wrong place")
        #expect(reason(text(ExportSample.firstHead)) == nil)
        #expect(reason(text(ExportSample.firstHead).replacing(#""version":1"#, with: #""version":2"#)) != nil)
        let barred = text(.barredKey(ExportSample.barred))
        #expect(reason(barred.replacing("hardware", with: "software")) == "'kind' has an unknown value")
    }

    @Test("a receipt that is too large or without an attestation is refused")
    func receipts() throws {
        guard case .device(var device) = ExportSample.fullDevice else { return }
        func give(_ size: Int) {
            device.receipt = ExportedReceipt(
                content: [UInt8](repeating: 7, count: size), riskMetric: nil,
                refresh: ReceiptRefresh(createdAt: nil, nextAt: nil, askedAt: nil, outcome: nil, failures: 0))
        }
        give(AttestationRecord.receiptLimit)
        #expect(try decode(text(.device(device))) == .device(device))
        give(AttestationRecord.receiptLimit + 1)
        #expect(reason(text(.device(device)))?.hasPrefix("'content' is not the right number of bytes") == true)
        give(3)
        device.attestation = nil
        #expect(reason(text(.device(device))) == "a receipt without an attestation")
    }

    @Test("a line that is too long is refused unread; a device with a thousand bindings is not")
    func long() throws {
        guard case .device(var device) = ExportSample.fullDevice else { return }
        device.bindings = (0..<1_000).map {
            ExportedBinding(key: Fixture.bindingKey($0), createdAt: 1_763_800_000, endsAt: 1_763_800_000, endedAt: nil)
        }
        #expect(try decode(text(.device(device))) == .device(device))
        let long = [UInt8](repeating: UInt8(ascii: "{"), count: ExportLine.limit + 1)
        #expect(throws: ExportFault("the line is longer than \(ExportLine.limit) bytes")) {
            try ExportLine.decode(long[...])
        }
    }
}
