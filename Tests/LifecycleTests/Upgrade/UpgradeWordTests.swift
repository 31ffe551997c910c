import Testing

@testable import Lifecycle

@Suite("The words between a process and the one that takes over")
struct UpgradeWordTests {
    @Test(
        "come back as they were said",
        arguments: [
            UpgradeChannel.Word.started(process: 4711), .prepared(process: 4711), .released, .serving, .announced,
            .cancelled,
        ])
    func roundTrip(word: UpgradeChannel.Word) {
        #expect(UpgradeChannel.Word(word.text) == word)
    }

    @Test(
        "are no others, and name no process that is none, or the first, or a group of them",
        arguments: [
            "", "hello", "prepared", "prepared x", "prepared 1", "prepared 0", "prepared -1", "started 1", "released 5",
        ])
    func refused(text: String) {
        #expect(UpgradeChannel.Word(text) == .unknown)
    }
}
