internal import Bytes

/// What carries a request and its response on a client connection.
///
/// An enumeration like `Transport`, not a class to be subclassed: a stream of HTTP/2 has a superclass already, and which of them it
/// is costs a comparison, not a call through a table.
enum ExchangeCarrier {
    case http1(HTTP1Session)

    func write(_ head: OutgoingHead, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        switch self {
        case .http1(let session): session.write(head, fields)
        }
    }

    /// - Returns: how much was taken.
    func write(_ content: Span<UInt8>) -> Int {
        switch self {
        case .http1(let session): session.write(content)
        }
    }

    /// - Returns: false if there is no room for the end yet.
    func writeEnd() -> Bool {
        switch self {
        case .http1(let session): session.writeEnd()
        }
    }

    func writeContinue() {
        switch self {
        case .http1(let session): session.writeContinue()
        }
    }

    func abort() {
        switch self {
        case .http1(let session): session.connection.abort()
        }
    }

    func resumeContent() {
        switch self {
        case .http1(let session): session.resumeContent()
        }
    }
}
