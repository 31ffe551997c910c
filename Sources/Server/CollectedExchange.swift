public import HTTP

/// An exchange whose request is collected in memory and whose response is one piece: for services that answer
/// themselves and do not forward.
open class CollectedExchange: Exchange {
    /// The content received so far: at most `contentLimit` bytes.
    public private(set) final var content: [UInt8] = []
    public final let contentLimit: Int
    private final var response: [UInt8] = []
    private final var sent = 0

    /// Creates an exchange.
    ///
    /// - Parameter contentLimit: The maximum of content, in bytes.
    public init(connection: ServerConnection, contentLimit: Int) {
        self.contentLimit = contentLimit
        super.init(connection: connection)
    }

    // MARK: - The request

    /// Called when the content exceeds the limit. The subclass answers.
    open func contentExceeded() {}

    /// Whether the head announces more content than the limit.
    public final var announcesTooMuch: Bool {
        if case .length(let length) = head.framing { length > UInt64(contentLimit) } else { false }
    }

    /// Returns a part of the head as text.
    public final func text(_ range: ByteRange) -> String {
        let bytes = headBytes.copy()
        return String(decoding: bytes[range.start..<range.end], as: UTF8.self)
    }

    override open func receive(content: Span<UInt8>) -> Int {
        // The rest of a refused request is discarded.
        guard !isAnswered else { return content.count }
        guard self.content.count + content.count <= contentLimit else {
            contentExceeded()
            return content.count
        }
        for index in content.indices { self.content.append(content[index]) }
        return content.count
    }

    // MARK: - The response

    /// Answers with a complete response.
    ///
    /// - Parameters:
    ///   - fields: Names and values, without those about length and date. They contain no line ends.
    ///   - date: The value of Date.
    /// - Returns: False if the head does not fit a buffer; nothing was written.
    public final func send(
        _ status: UInt16, _ fields: [(name: String, value: String)], content: [UInt8], date: [UInt8]
    ) -> Bool {
        let length = UInt64(content.count)
        // Neither the answer to HEAD nor 204 has content.
        let isBare = head.method == .head || status == 204
        let isSent = sendHead(
            status, content: isBare ? .none : .length(length), statedLength: status == 204 ? nil : length
        ) { output in
            output.appendField("Date", date.span)
            for field in fields {
                let (name, value) = (Array(field.name.utf8), Array(field.value.utf8))
                output.appendField(name.span, value.span)
            }
        }
        if isSent { send(isBare ? [] : content) }
        return isSent
    }

    /// Sends the content of the response, whose length the head has stated.
    public final func send(_ response: [UInt8]) {
        self.response = response
        push()
    }

    private func push() {
        let response = response
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

    /// Resets the exchange. Subclasses reset their own properties and call `super`.
    override open func ended() {
        content = []
        response = []
        sent = 0
    }
}
