/// The fields behind the content of a response: ranges into the bytes they were read from.
///
/// Only HTTP/2 brings any: those of HTTP/1.1's chunked coding are dropped where they are read.
public struct ResponseTrailers: Sendable {
    public internal(set) var fields: [HeaderField] = []

    public init() {}
}
