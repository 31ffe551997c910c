import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Export pages of a file")
struct ExportSliceTests {
    private static let past = Instant(nanoseconds: 0)

    @Test("a page past its time ends after one device, and the export continues behind it")
    func time() throws {
        let scratch = try Scratch()
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(5)
        var cursor: ExportCursor? = .start
        var keys: [KeyID] = []
        var pages = 0
        while let place = cursor {
            let page = try store.exportPage(from: place, limit: 100, until: Self.past, at: 0)
            let devices = page.records.compactMap { if case .device(let device) = $0 { device } else { nil } }
            #expect(devices.count <= 1)
            keys += devices.map(\.identity.hardwareKey)
            cursor = page.next
            pages += 1
        }
        #expect(keys == (1...5).map(Fixture.hardwareKey))
        // One that finds no more devices, and one for each kind behind them.
        #expect(pages == 12)
    }

    @Test("a page ends when it is large, however long a device's line is")
    func size() throws {
        let scratch = try Scratch()
        let store = try RegistryStore(path: scratch.file(), creating: true)
        for number in 1...100 {
            let receipt = [UInt8](repeating: 7, count: AttestationRecord.receiptLimit)
            let attestation = try #require(
                AttestationRecord(digest: Fixture.fingerprint(number, kind: 6), receipt: receipt))
            _ = try store.initialize(store.initialization(number, attestation: attestation), at: 1_000)
        }
        var cursor: ExportCursor? = .start
        var sizes: [Int] = []
        while let place = cursor {
            let page = try store.exportPage(from: place, limit: 256, until: .now + .seconds(60), at: 0)
            sizes.append(page.records.reduce(0) { $0 + ExportLine.encode($1).count })
            cursor = page.next
        }
        #expect(sizes.allSatisfy { $0 < ExportPage.weight + ExportLine.limit })
        #expect(sizes.count { $0 > ExportPage.weight / 2 } >= 3)
    }

    @Test("a page includes committed counters not yet in the device's row")
    func journal() throws {
        let scratch = try Scratch()
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        #expect(store.commit(1, 7) == .committed)
        #expect(store.journalLength == 1)
        let page = try store.exportPage(from: .start, limit: 100, until: .now + .seconds(60), at: 0)
        guard case .device(let device) = page.records.last else {
            Issue.record("no device")
            return
        }
        #expect(device.window.highest == 7)
    }
}
