internal import Foundation

/// One line on standard error that is written over, if that is a terminal and the work takes longer than a moment.
final class ProgressLine {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var next = ContinuousClock.now + .seconds(2)
    private var isShown = false

    func show(_ text: @autoclosure () -> String) {
        guard isTerminal, ContinuousClock.now >= next else { return }
        next = .now + .milliseconds(200)
        isShown = true
        write("\r\u{1b}[K" + text())
    }

    func clear() {
        if isShown { write("\r\u{1b}[K") }
        isShown = false
    }

    private func write(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
    }
}
