import Testing

@testable import Lifecycle

@Suite("The upgrade channel")
struct UpgradeWordTests {
    @Test(
        "every word is read as written",
        arguments: [
            UpgradeChannel.Word.started(process: 4711), .prepared(process: 4711), .released, .serving, .announced,
            .cancelled,
        ])
    func roundTrip(word: UpgradeChannel.Word) {
        #expect(UpgradeChannel.Word(word.text) == word)
    }

    @Test(
        "other words are refused, and process ids that name none, the first or a group",
        arguments: [
            "", "hello", "prepared", "prepared x", "prepared 1", "prepared 0", "prepared -1", "started 1", "released 5",
        ])
    func refused(text: String) {
        #expect(UpgradeChannel.Word(text) == .unknown)
    }
}
