/// What became of one lookup: for IPv4 and for IPv6 apart, since one may fail alone.
public struct NameAnswer: Equatable, Sendable {
    public enum Part: Equatable, Sendable {
        /// In the order of the answer, at least one.
        case addresses([SocketAddress], ttl: TimeSpan)
        /// The nameserver says that there are none.
        case none
        case failed(NameFault)
    }

    public var ipv4: Part
    public var ipv6: Part

    public init(ipv4: Part, ipv6: Part) {
        self.ipv4 = ipv4
        self.ipv6 = ipv6
    }
}

/// Why a name has no addresses.
public enum NameFault: Int, CaseIterable, Sendable {
    /// The name does not exist, or has no address.
    case nonexistent
    /// No nameserver answered in time, or those that did could not find out either (SERVFAIL).
    case timeout
    /// A nameserver does not answer us, or not this kind of question.
    case refused
    /// The answer does not fit into a UDP message.
    case truncated
    /// The answer is none.
    case malformed
    /// All addresses are of a kind that nothing is forwarded to.
    case forbidden
    /// No question could be asked: out of memory or descriptors.
    case exhausted

    /// In metrics.
    public var name: String { String(describing: self) }

    /// For people.
    public var text: String {
        switch self {
        case .nonexistent: "the name does not exist or has no address"
        case .timeout: "no nameserver has answered"
        case .refused: "the nameserver refused the query"
        case .truncated: "the answer does not fit into a UDP message"
        case .malformed: "the nameserver's answer is malformed"
        case .forbidden: "none of its addresses may be used"
        case .exhausted: "out of memory or descriptors"
        }
    }
}
