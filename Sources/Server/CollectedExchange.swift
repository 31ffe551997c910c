public import HTTP

/// An exchange whose request is small enough to be collected, and whose response is one piece: for services that answer
/// themselves rather than forward.
open class CollectedExchange: Exchange {
    /// What has arrived of the request's content: at most `contentLimit` octets.
    public private(set) final var content: [UInt8] = []
    public final let contentLimit: Int
    private final var response: [UInt8] = []
    private final var sent = 0

    /// - Parameter contentLimit: in octets.
    public init(connection: ServerConnection, contentLimit: Int) {
        self.contentLimit = contentLimit
        super.init(connection: connection)
    }

    // MARK: - The request

    /// More content has arrived than may. Answer.
    open func contentExceeded() {}

    /// The content, by what the head says of it, is more than may be.
    public final var announcesTooMuch: Bool {
        if case .length(let length) = head.framing { length > UInt64(contentLimit) } else { false }
    }

    /// A part of the head as text.
    public final func text(_ range: ByteRange) -> String {
        let bytes = headBytes.copy()
        return String(decoding: bytes[range.start..<range.end], as: UTF8.self)
    }

    override open func receive(content: Span<UInt8>) -> Int {
        // What is refused already is read over.
        guard !isAnswered else { return content.count }
        guard self.content.count + content.count <= contentLimit else {
            contentExceeded()
            return content.count
        }
        for index in content.indices { self.content.append(content[index]) }
        return content.count
    }

    // MARK: - The response

    /// Writes what follows the head, whose length the head has said.
    public final func send(_ response: [UInt8]) {
        self.response = response
        push()
    }

    private func push() {
        while sent < response.count {
            let taken = sendContent(response.span.extracting(sent...))
            guard taken > 0 else { return }
            sent += taken
        }
        _ = sendEnd()  // no chunks, so there is always room for the end
    }

    override open func outputDrained() {
        if isAnswered { push() }
    }

    /// Subclasses forget what they have too, and call this.
    override open func ended() {
        content = []
        response = []
        sent = 0
    }
}
