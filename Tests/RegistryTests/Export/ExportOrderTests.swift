import RegistryMemory
import Testing
import Vocabulary

@testable import Registry

@Suite("The order of export lines")
struct ExportOrderTests {
    private func reason(_ records: [ExportRecord]) -> String? {
        var order = ExportOrder()
        do {
            for record in records { try order.add(record) }
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test("an export is a head, any of the kinds in order, and an end with their counts")
    func whole() {
        #expect(reason(ExportSample.all) == nil)
        #expect(reason([ExportSample.head, ExportSample.end()]) == nil)
        for left in 1..<(ExportSample.all.count - 1) {
            var records = ExportSample.all
            records.remove(at: left)
            #expect(reason(records) == "the counts in the last line are wrong")
        }
    }

    @Test("nothing precedes the one head, and nothing follows the end")
    func ends() {
        #expect(reason([ExportSample.leastDevice])?.contains("not a head") == true)
        #expect(reason([ExportSample.end()])?.contains("not a head") == true)
        #expect(reason([ExportSample.head, ExportSample.head]) == "the head occurs twice")
        for record in ExportSample.all {
            #expect(
                reason([ExportSample.head, ExportSample.end(), record]) == "there is data after the last line")
        }
    }

    @Test("a kind after a later kind is refused")
    func kinds() {
        for (index, record) in ExportSample.all.enumerated() where (3..<7).contains(index) {
            for earlier in ExportSample.all[1..<index] where !(index == 2) {
                #expect(reason([ExportSample.head, record, earlier]) != nil, "\(index)")
            }
        }
    }

    @Test("within a kind the lines ascend, so that none occurs twice")
    func upwards() {
        func tokens(_ numbers: Int...) -> [ExportRecord] {
            [ExportSample.head] + numbers.map { .usedToken(Fixture.token($0)) }
        }
        #expect(reason(tokens(1, 2, 3)) == nil)
        #expect(reason(tokens(1, 1)) != nil)
        #expect(reason(tokens(2, 1)) != nil)
        let key = Fixture.hardwareKey(1)
        func barred(_ kinds: BarredKeyKind...) -> [ExportRecord] {
            [ExportSample.head] + kinds.map { .barredKey(BarredKey(key: key, kind: $0, barredAt: 1)) }
        }
        #expect(reason(barred(.hardware, .mTLS)) == nil)
        #expect(reason(barred(.mTLS, .hardware)) != nil)
        #expect(reason([ExportSample.head, ExportSample.certificate(1), ExportSample.certificate(1)]) != nil)
    }

    @Test("a cursor is read as written, and every other text is refused")
    func cursors() {
        let places = [
            ExportCursor.start, ExportCursor(behind: 1), ExportCursor(behind: .max),
            ExportCursor(section: .certificates, after: [1]), ExportCursor(section: .usedTokens, after: []),
            ExportCursor(section: .barredKeys, after: ExportSample.barred.place),
        ]
        for place in places { #expect(ExportCursor(place.description) == place) }
        #expect(ExportCursor(behind: 258).device == 258)
        #expect(ExportCursor(section: .barredKeys, after: ExportSample.barred.place).barred.kind == "hardware")
        for text in [
            "", "devices", "devices-01", "devices-8000000000000000", "devices-00000000000000AA", "things-",
            "tokens-00", "devices-0000000000000001-", "barred-\(String(repeating: "0", count: 64))",
        ] {
            #expect(ExportCursor(text) == nil, "\(text)")
        }
    }
}
