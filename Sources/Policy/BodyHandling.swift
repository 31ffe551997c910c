/// When the content of a request with a proof is forwarded to the upstream.
public enum BodyHandling: Sendable {
    /// When all of it has come and is what the proof says.
    case collected
    /// As it comes, but for its last byte, which waits until all of it is known to be what the proof says.
    case streamed
}
