internal import Administration
internal import ArgumentParser
internal import CLinux
internal import EventLoop
internal import Glibc

struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch the running gateway: requests, denials, latency, upstreams, registry.",
        discussion: """
            Contacts the gateway through the socket in the section `administration` of the conf file every second. q \
            or Ctrl-C quits. Keeps trying while the gateway is down.

            With --once, or if the output is not a terminal, prints one interval without colours and exits. NO_COLOR \
            turns colours off.

            Exit status: 0; with --once 1 if the gateway is not reachable.
            """)

    @OptionGroup var gateway: GatewayOptions

    @Option(help: ArgumentHelp("The interval: 1 to 60 seconds.", valueName: "SECONDS"))
    var interval = 1

    @Flag(help: "Print one page and exit.")
    var once = false

    func validate() throws {
        guard (1...60).contains(interval) else { throw ValidationError("--interval must be 1 to 60 seconds") }
    }

    func run() throws {
        let socket = try gateway.socket(otherwise: "say --socket")
        let watch = GatewayWatch(socket: socket)
        guard !once, isatty(STDOUT_FILENO) == 1 else { return try printOnce(watch) }
        let screen = try TerminalScreen()
        defer { screen.restore() }
        repeat {
            let (width, height) = screen.size
            screen.show(watch.page(width: width, height: height))
        } while screen.waits(milliseconds: Int32(interval) * 1_000)
    }

    private func printOnce(_ watch: GatewayWatch) throws {
        try GatewayOptions.explaining(watch.socket) {
            try watch.look()
            sleep(UInt32(interval))
            try watch.look()
        }
        for line in watch.page.lines { print(line.text) }
    }
}

/// A sequence of samples of a gateway.
private final class GatewayWatch {
    let socket: String
    private let client: AdministrationClient
    private var earlier: (metrics: ScrapedMetrics, at: Instant)?
    private var latest: (metrics: ScrapedMetrics, at: Instant)?
    private var status: StatusDocument?

    init(socket: String) {
        self.socket = socket
        client = AdministrationClient(socketPath: socket, patience: .seconds(2))
    }

    func look() throws(AdministrationClientError) {
        let metrics = ScrapedMetrics(try client.metrics())
        status = try client.status()
        earlier = latest
        latest = (metrics, .now)
    }

    /// The last sample without limits of size. It is a fault before the first.
    var page: TopPage { page(fitting: .max, nil) ?? TopPage(fault: "no data yet", width: .max) }

    /// Takes a sample and returns the page. Until there are two samples, totals since the start are shown instead of
    /// changes.
    func page(width: Int, height: Int) -> TopPage {
        do throws(AdministrationClientError) { try look() } catch {
            // The next answer is from another process.
            earlier = nil
            latest = nil
            return TopPage(fault: "\(DeviceAdministrationError.gateway(socket: socket, error))", width: width)
        }
        return page(fitting: width, height) ?? TopPage(fault: "no data yet", width: width)
    }

    private func page(fitting width: Int, _ height: Int?) -> TopPage? {
        guard let status, let latest else { return nil }
        let before = earlier ?? latest
        let seconds = Double((latest.at - before.at).nanoseconds) / 1_000_000_000
        let figures = TopFigures(from: before.metrics, to: latest.metrics, seconds: max(seconds, 0.001))
        return TopPage(status, figures, width: width, height: height)
    }
}

/// A terminal with the alternate screen, unbuffered keys, and signals as events. Its former state is restored at the
/// end, except after SIGKILL.
private final class TerminalScreen {
    private let before: termios?
    private let signals: Int32
    private let hasColours: Bool
    private let oldMask: sigset_t

    /// Sets up the terminal.
    ///
    /// - Throws: if no descriptor is left.
    init() throws {
        var mask = sigset_t()
        sigemptyset(&mask)
        // Signals are read from a descriptor, so that none ends the process before the terminal is restored.
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
        // Alternate screen, no cursor, no line wrap.
        Self.write("\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l")
    }

    func restore() {
        Self.write("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l")
        if var before { tcsetattr(STDIN_FILENO, TCSANOW, &before) }
        close(signals)
        var mask = oldMask
        sigprocmask(SIG_SETMASK, &mask, nil)
    }

    /// The number of columns and rows, or the usual one if the terminal does not know it.
    var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    func show(_ page: TopPage) {
        // One write over the old content avoids flickering.
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

    /// Waits for the time, a key or a change of size.
    ///
    /// - Returns: false if the program must end.
    func waits(milliseconds: Int32) -> Bool {
        var watched = [
            pollfd(fd: signals, events: Int16(POLLIN), revents: 0),
            // poll ignores negative descriptors.
            pollfd(fd: before == nil ? -1 : STDIN_FILENO, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&watched, nfds_t(watched.count), milliseconds) > 0 else { return true }
        if watched[0].revents != 0 {
            var info = [UInt32](repeating: 0, count: Int(ag_signalfd_size) / 4)
            return read(signals, &info, Int(ag_signalfd_size)) == ag_signalfd_size && info[0] == UInt32(SIGWINCH)
        }
        var keys = [UInt8](repeating: 0, count: 64)
        let count = read(STDIN_FILENO, &keys, keys.count)
        // The terminal is closed.
        guard count > 0 else { return false }
        // Ctrl-C, Ctrl-D and Ctrl-\ are keys here and cause no signals.
        return !keys[..<count].contains { [UInt8(ascii: "q"), UInt8(ascii: "Q"), 3, 4, 28].contains($0) }
    }

    private static func write(_ text: String) {
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            // The next read of keys detects a closed terminal.
            guard count > 0 || errno == EINTR else { return }
            written += max(0, count)
        }
    }
}
