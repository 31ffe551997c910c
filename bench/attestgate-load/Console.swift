internal import Foundation
internal import LoadGeneration

/// Progress on stderr: one line that is written over on a terminal, a line every five seconds otherwise.
final class Console {
    private let isQuiet: Bool
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var seconds = 0
    private var lastPhase = ""

    init(isQuiet: Bool) {
        self.isQuiet = isQuiet
    }

    func show(_ progress: LoadProgress) {
        seconds += 1
        // A script that waits for the connections to stand waits for this line.
        if progress.phase == "holding", lastPhase != "holding" {
            finish()
            write("holding \(progress.connections) connections\n")
        } else if !isQuiet, isTerminal || seconds % 5 == 0 {
            let text =
                "\(progress.phase): \(progress.connections) connections, \(progress.requests) requests, "
                + "\(progress.failed) failed"
            write(isTerminal ? "\r\u{1b}[K" + text : text + "\n")
        }
        lastPhase = progress.phase
    }

    /// Leaves the line that progress was written over.
    func finish() {
        if !isQuiet, isTerminal { write("\r\u{1b}[K") }
    }

    private func write(_ text: String) {
        FileHandle.standardError.write(Data(text.utf8))
    }
}
