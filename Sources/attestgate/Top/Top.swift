internal import Administration
internal import ArgumentParser
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

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if it is not the conf file's.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    @Option(help: ArgumentHelp("The interval: 1 to 60 seconds.", valueName: "SECONDS"))
    var interval = 1

    @Flag(help: "Print one page and exit.")
    var once = false

    func validate() throws {
        guard (1...60).contains(interval) else { throw ValidationError("--interval must be 1 to 60 seconds") }
    }

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "say --socket")
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
        do throws(AdministrationClientError) {
            try watch.look()
            sleep(UInt32(interval))
            try watch.look()
        } catch {
            throw Failure("\(DeviceAdministrationError.gateway(socket: watch.socket, error))")
        }
        for line in watch.page.lines { print(line.text) }
    }
}

/// Looks at a gateway again and again.
final class GatewayWatch {
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

    /// What was seen last, as wide and long as it is. Empty before.
    var page: TopPage { page(fitting: .max, nil) ?? TopPage(fault: "no data yet", width: .max) }

    /// Refreshes the page. Until there are two samples, the totals since the start stand for the changes.
    func page(width: Int, height: Int) -> TopPage {
        do throws(AdministrationClientError) { try look() } catch {
            // Whatever comes next is another process.
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
