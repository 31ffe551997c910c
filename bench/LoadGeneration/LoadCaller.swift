internal import EventLoop

/// What became of one request.
enum Outcome {
    case answered(status: UInt16)
    case failed(Failure)
}

enum Handshake {
    case full
    case resumed
}

/// Makes one request after the other over a connection: over HTTP/1.1 its only caller, over HTTP/2 one of several.
final class LoadCaller {
    /// Position among the callers of the run. As many as there are connections come first, one of each.
    let index: Int
    unowned let connection: LoadConnection
    /// When the request under way was due: where its latency begins.
    private(set) var due = Instant(nanoseconds: 0)
    /// When it must be answered.
    private(set) var end = Instant(nanoseconds: 0)
    /// Whether a request is under way, connecting included.
    private(set) var isBusy = false
    /// The request under way, or the last.
    private(set) var request: LoadRequest
    /// Of a stream: its place among the requests of the slot; the status of its response, as far as that has come; octets of its content that were framed; whether it
    /// could not be begun.
    var turn = 0
    var status: UInt16 = 0
    var framed = 0
    var isUnsent = false
    /// The handshake made for the request under way; nil if it went over an open connection.
    var handshake: Handshake?

    init(index: Int, connection: LoadConnection, request: LoadRequest) {
        self.index = index
        self.connection = connection
        self.request = request
    }

    /// Makes one request, over the open connection if there is one.
    func begin(due: Instant, now: Instant) {
        self.due = due
        isBusy = true
        handshake = nil
        connection.begin(self, now: now)
    }

    func began(_ request: LoadRequest, end: Instant) {
        self.request = request
        self.end = end
        isToBeSent()
    }

    /// Nothing of the request was sent yet, or it goes once more.
    func isToBeSent() {
        status = 0
        framed = 0
        isUnsent = false
    }

    func ended() {
        isBusy = false
    }
}
