internal import Administration
internal import CLinux
internal import Glibc

/// A terminal of our own: the alternate screen, keys as they are pressed, signals as they come; as it was before when it ends,
/// whatever ends it but SIGKILL.
final class TerminalScreen {
    private let before: termios?
    private let signals: Int32
    private let hasColours: Bool
    private let oldMask: sigset_t

    /// - Throws: if there are no descriptors left.
    init() throws {
        var mask = sigset_t()
        sigemptyset(&mask)
        // They come as something to read: none ends the process before the terminal is as it was.
        for signal in [SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT] { sigaddset(&mask, signal) }
        var old = sigset_t()
        sigprocmask(SIG_BLOCK, &mask, &old)
        oldMask = old
        signals = ag_signalfd(-1, &mask, O_CLOEXEC)
        guard signals >= 0 else { throw Failure("signalfd: \(String(cString: strerror(errno)))") }
        hasColours =
            getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
            && getenv("TERM").map { String(cString: $0) != "dumb" } ?? false
        var settings = termios()
        if isatty(STDIN_FILENO) == 1, tcgetattr(STDIN_FILENO, &settings) == 0 {
            before = settings
            settings.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        } else {
            before = nil
        }
        // The other screen; no cursor; nothing wraps.
        Self.write("\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l")
    }

    func restore() {
        Self.write("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l")
        if var before { tcsetattr(STDIN_FILENO, TCSANOW, &before) }
        close(signals)
        var mask = oldMask
        sigprocmask(SIG_SETMASK, &mask, nil)
    }

    /// Columns and rows; of one that does not know, the usual.
    var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    func show(_ page: TopPage) {
        // In one write, over what is there: nothing flickers.
        var text = "\u{1b}[H"
        for (index, line) in page.lines.enumerated() {
            text += (index == 0 ? "" : "\r\n") + styled(line) + "\u{1b}[K"
        }
        Self.write(text + "\u{1b}[J")
    }

    private func styled(_ line: TopPage.Line) -> String {
        guard hasColours else { return line.text }
        switch line.style {
        case .plain: return line.text
        case .heading: return "\u{1b}[1m\(line.text)\u{1b}[0m"
        case .good: return "\u{1b}[32m\(line.text)\u{1b}[0m"
        case .bad: return "\u{1b}[31m\(line.text)\u{1b}[0m"
        }
    }

    /// Waits for the time, a key, or another size. - Returns: false if it is to end.
    func waits(milliseconds: Int32) -> Bool {
        var watched = [
            pollfd(fd: signals, events: Int16(POLLIN), revents: 0),
            // Negative ones are passed over.
            pollfd(fd: before == nil ? -1 : STDIN_FILENO, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&watched, nfds_t(watched.count), milliseconds) > 0 else { return true }
        if watched[0].revents != 0 {
            var info = [UInt32](repeating: 0, count: Int(ag_signalfd_size) / 4)
            return read(signals, &info, Int(ag_signalfd_size)) == ag_signalfd_size && info[0] == UInt32(SIGWINCH)
        }
        var keys = [UInt8](repeating: 0, count: 64)
        let count = read(STDIN_FILENO, &keys, keys.count)
        // The terminal is gone.
        guard count > 0 else { return false }
        // Ctrl-C, Ctrl-D and Ctrl-\ as keys: they make no signals here.
        return !keys[..<count].contains { [UInt8(ascii: "q"), UInt8(ascii: "Q"), 3, 4, 28].contains($0) }
    }

    private static func write(_ text: String) {
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            // A terminal that is gone is noticed when its keys are read.
            guard count > 0 || errno == EINTR else { return }
            written += max(0, count)
        }
    }
}
