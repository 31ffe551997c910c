/// How far a request and its response have come.
struct ClientStreamState {
    // The stream.
    /// nghttp2 knows of it, or will when its turn has come.
    var isOnWire = false
    /// Nobody wants to hear of it: it was given up, or has failed.
    var isReset = false

    // The request.
    var isHead = false
    /// Where the end of its fields stands in all that was ever framed on the connection; 0 before they were.
    var headEnd: UInt64 = 0
    /// No more of it is added.
    var isEnding = false
    /// The data provider has nothing and waits to be resumed.
    var isDeferred = false
    /// END_STREAM was framed.
    var requestEnded = false

    // The response.
    /// Something of an answer has begun.
    var isAnswered = false
    var interimResponses = 0
    /// The final head is read.
    var hasHead = false
    /// It waits for the end of the stream: there is to be no content, and none may follow.
    var isHeld = false
    /// Octets that are still announced; nil if nothing was.
    var missing: UInt64?
    /// The last octet of a stated length waits for the end of the stream.
    var isLastKept = false
    var hasTrailers = false
    /// END_STREAM has come, and all that came before it is well-formed.
    var isComplete = false
    var isEndReported = false
    /// Within `receive(content:)`.
    var isDelivering = false
    /// Content was wanted within it.
    var isWanted = false
    /// It did not take all it was offered, and has not asked since.
    var isFull = false

    // In the session's lists.
    /// In the list of streams to be notified of room.
    var isDrained = false
    /// In the list of streams to be settled.
    var isTouched = false
}
