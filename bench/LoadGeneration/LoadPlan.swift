public import EventLoop
public import TLS

/// Everything that is decided before the first connection is opened.
public struct LoadPlan: Sendable {
    public var mode: LoadMode
    /// The peer, whatever the URL says.
    public var address: SocketAddress
    public var target: LoadURL
    public var request: RequestTemplate
    /// Connections open at the same time.
    public var connections: Int
    /// What is spoken on them.
    public var version = ApplicationProtocol.http11
    /// Requests under way at the same time on each of them; more than one only over HTTP/2.
    public var parallel = 1
    /// Requests per second over all connections; nil: each caller sends its next request when the last is answered.
    public var rate: Double?
    public var duration: TimeSpan
    /// Requests in all, of a closed loop that ends with the last of them, `duration` or not: what is counted for each of them is then
    /// no matter of how fast anybody was. Nil for as many as there is time for.
    public var requests: Int?
    /// Load before the measurement begins: caches fill, the kernel's windows open.
    public var warmup = TimeSpan.seconds(0)
    /// How long idle connections are held.
    public var hold = TimeSpan.seconds(0)
    /// From the moment a request is begun (connecting included) until its response must be complete.
    public var timeout = TimeSpan.seconds(10)
    /// Processes whose CPU time during the measurement is reported with the rest: the server's.
    public var serverProcesses: [Int32] = []

    public init(
        mode: LoadMode, address: SocketAddress, target: LoadURL, request: RequestTemplate, connections: Int,
        duration: TimeSpan
    ) {
        self.mode = mode
        self.address = address
        self.target = target
        self.request = request
        self.connections = connections
        self.duration = duration
    }
}
