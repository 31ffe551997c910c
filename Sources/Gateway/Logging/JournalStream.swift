internal import Glibc

/// Whether a stream of the process goes to systemd's journal (systemd.exec(5), `$JOURNAL_STREAM`): then each line may begin with
/// its priority, `<3>` (sd-daemon(3)), which the journal takes off and keeps.
package enum JournalStream {
    /// The variable alone proves nothing: it is inherited by children whose streams go elsewhere.
    package static var isStandardError: Bool {
        guard let variable = getenv("JOURNAL_STREAM") else { return false }
        var status = stat()
        guard fstat(STDERR_FILENO, &status) == 0 else { return false }
        return String(cString: variable) == "\(status.st_dev):\(status.st_ino)"
    }
}
