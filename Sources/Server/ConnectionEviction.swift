/// The choice of the connections that are closed for new ones where there is no room for both: the oldest of those that
/// may be closed, of the holder with the most connections.
///
/// A holder is a client certificate, or before that is known an address. So a crowd does not displace the clients of
/// other holders. A /64 of IPv6 is one address: who has one address of it has all. Of holders with equally many the one
/// with the oldest such connection is chosen, so each newcomer has as much time as the others had.
struct ConnectionEviction {
    /// A connection that may be closed.
    private struct Candidate {
        let isKnown: Bool
        let number: UInt64
    }

    private struct Holding {
        var count = 0
        var closable: [Candidate] = []

        var oldest: UInt64 { closable.map(\.number).min() ?? 0 }
    }

    private var holdings: [Int: Holding] = [:]

    /// - Parameters:
    ///   - number: counts the connections of the acceptor.
    ///   - isKnown: whether the client has shown who it is. A holder's other connections are closed first.
    ///   - isClosable: whether nothing that the connection is used for would be lost.
    mutating func add(holder: Int, number: UInt64, isKnown: Bool, isClosable: Bool) {
        holdings[holder, default: Holding()].count += 1
        guard isClosable else { return }
        holdings[holder, default: Holding()].closable.append(Candidate(isKnown: isKnown, number: number))
    }

    /// Of so many connections one is closed: looking at all of them for each newcomer would cost more than a newcomer.
    private static let part = 256

    /// The numbers of the connections to close; empty if none may be. More than one only of many, and while their holder
    /// keeps more than any other.
    var numbers: [UInt64] {
        let candidates = holdings.values.filter { !$0.closable.isEmpty }
        func precedes(_ left: Holding, _ right: Holding) -> Bool {
            (left.count, right.oldest) < (right.count, left.oldest)
        }
        guard let largest = candidates.max(by: precedes) else { return [] }
        let counts = holdings.values.map(\.count).sorted()
        let second = counts.dropLast().last ?? 0
        let total = counts.reduce(0, +)
        let excess = min(total / Self.part, largest.count - second)
        let order = largest.closable.sorted { ($0.isKnown ? 1 : 0, $0.number) < ($1.isKnown ? 1 : 0, $1.number) }
        return order.prefix(max(1, excess)).map(\.number)
    }
}
