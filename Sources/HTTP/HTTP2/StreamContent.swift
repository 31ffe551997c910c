/// The delivery of received content to its recipient, which may pause it.
enum ContentDelivery: Equatable {
    /// Content is passed on.
    case open
    /// The recipient is being called.
    ///
    /// - isWanted: whether it has requested content within the call.
    case running(isWanted: Bool)
    /// The recipient did not take all content, and has not requested more since.
    case paused

    var isRunning: Bool {
        switch self {
        case .running: true
        case .open, .paused: false
        }
    }

    mutating func begin() { self = .running(isWanted: false) }

    mutating func end(isAllTaken: Bool) {
        self = isAllTaken || self == .running(isWanted: true) ? .open : .paused
    }

    /// Requests content.
    ///
    /// - Returns: whether it can be delivered now. Otherwise the call that is running continues with it.
    mutating func resume() -> Bool {
        guard !isRunning else {
            self = .running(isWanted: true)
            return false
        }
        self = .open
        return true
    }
}

/// The content that nghttp2 takes from a stream and frames.
enum OutgoingContent {
    /// More may follow, or the end.
    ///
    /// - isDeferred: whether nghttp2 has found nothing and waits to be resumed.
    /// - isDrained: whether the stream is in the session's list of streams to be notified of room.
    case open(isDeferred: Bool, isDrained: Bool)
    /// It is complete; its end is not framed yet.
    case ending
    /// END_STREAM is framed.
    case ended

    /// The content of a frame that nghttp2 is making.
    enum Frame {
        /// None at present: nghttp2 waits to be resumed.
        case none
        /// - isFirst: whether the stream enters the list of streams to be notified of room.
        case some(isFirst: Bool)
        /// The last, perhaps none.
        case last
    }

    /// Begins content.
    ///
    /// - Parameter isEmpty: whether the head ends the stream.
    init(isEmpty: Bool) {
        self = isEmpty ? .ending : .open(isDeferred: false, isDrained: false)
    }

    /// Ends the content.
    ///
    /// - Returns: whether nghttp2 must be resumed.
    mutating func end() -> Bool {
        guard case .open(let isDeferred, _) = self else { return false }
        self = .ending
        return isDeferred
    }

    /// Records that a frame takes content.
    ///
    /// - Parameters:
    ///   - count: the number of bytes. If it is 0, there were none.
    ///   - isAll: whether no more waits.
    mutating func framed(_ count: Int, isAll: Bool) -> Frame {
        switch self {
        case .open(_, let isDrained) where count == 0:
            self = .open(isDeferred: true, isDrained: isDrained)
            return .none
        case .open(_, let isDrained):
            if !isDrained { self = .open(isDeferred: false, isDrained: true) }
            return .some(isFirst: !isDrained)
        case .ending where isAll: return .last
        case .ending, .ended: return count > 0 ? .some(isFirst: false) : .none
        }
    }

    /// Takes the stream from the list of streams to be notified of room.
    ///
    /// - Returns: whether it was in the list.
    mutating func takeRoom() -> Bool {
        guard case .open(let isDeferred, isDrained: true) = self else { return false }
        self = .open(isDeferred: isDeferred, isDrained: false)
        return true
    }
}
