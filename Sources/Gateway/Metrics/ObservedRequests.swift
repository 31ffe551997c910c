package import Vocabulary

/// Requests of routes that are not enforced on every device, by route, app and version: from these an operator sees
/// whom enforcement would lock out.
///
/// A version is the client's word, and anybody can invent some. So a new row takes the place of the least requested row
/// of the route and app with the most rows (Space-Saving: Metwally et al., 2005). Within the limit a version keeps its
/// row if its share of the requests of its route and app is more than one row's share of their rows.
package struct ObservedRequests: Sendable {
    package struct Key: Hashable, Sendable {
        package let route: String
        /// The app of the certificate's device. Empty if there is none.
        package let app: String
        /// What the client calls itself. Empty if it does not say.
        package let version: String

        package init(route: String, app: String, version: String) {
            self.route = route
            self.app = app
            self.version = version
        }

        /// The row of the route and app for all versions that have no row of their own.
        fileprivate var others: Key { Key(route: route, app: app, version: ObservedRequests.others) }
    }

    package struct Row: Sendable, Equatable {
        package fileprivate(set) var requests: UInt64 = 0
        /// Those that enforcement forwards, too.
        package fileprivate(set) var passed: UInt64 = 0
        /// The others, by the denial that is or would be theirs.
        package fileprivate(set) var denials: [Denial: UInt64] = [:]
    }

    private struct Place {
        var row = Row()
        /// Distinguishes the row from an earlier one of the same version that gave way.
        let number: UInt64
        /// The weight of the row that gave way for this one.
        let inherited: UInt64

        var weight: UInt64 { row.requests + inherited }
    }

    private var places: [Key: Place] = [:]
    /// The number of rows of each route and app, by the key of their common row, which is not counted.
    private var sizes: [Key: Int] = [:]
    /// The number of rows that ever began.
    private var begun: UInt64 = 0

    /// The maximum number of rows. The common rows of routes and apps, which are configured, come on top of it.
    static let limit = 256
    /// The version of a common row.
    package static let others = "_others"

    package init() {}

    package var rows: [Key: Row] { places.mapValues(\.row) }

    /// Counts a request.
    ///
    /// - Parameter denial: The denial that is its own, or would be. Nil if it passed.
    mutating func count(_ key: Key, _ denial: Denial?) {
        update(key) { $0.count(denial) }
    }

    /// Adds what another table has counted.
    package mutating func add(_ rows: [Key: Row]) {
        for (key, row) in rows { update(key) { $0.add(row) } }
    }

    /// Returns what was counted since an earlier moment.
    package func since(_ earlier: ObservedRequests) -> [Key: Row] {
        // The counts of a row that has given way meanwhile are in the common row now.
        var before: [Key: Row] = [:]
        for (key, place) in earlier.places {
            before[places[key]?.number == place.number ? key : key.others, default: Row()].add(place.row)
        }
        var difference: [Key: Row] = [:]
        for (key, place) in places {
            let new = place.row.since(before[key] ?? Row())
            if new.requests > 0 { difference[key] = new }
        }
        return difference
    }

    private mutating func update(_ key: Key, _ change: (inout Row) -> Void) {
        if let index = places.index(forKey: key) { return change(&places.values[index].row) }
        begun += 1
        if key.version != Self.others, let weight = makeRoom(for: key) {
            sizes[key.others, default: 0] += 1
            change(&places[key, default: Place(number: begun, inherited: weight)].row)
        } else {
            change(&places[key.others, default: Place(number: begun, inherited: 0)].row)
        }
    }

    /// Makes room for a row.
    ///
    /// - Returns: The weight that it inherits. Nil if there is no room: so many routes and apps have a row each.
    private mutating func makeRoom(for key: Key) -> UInt64? {
        guard sizes.values.reduce(0, +) >= Self.limit else { return 0 }
        let own = sizes[key.others] ?? 0
        var group = key.others
        if let largest = sizes.max(by: { $0.value < $1.value }), largest.value > own + 1 { group = largest.key }
        let rows = places.lazy.filter { $0.key.version != Self.others && $0.key.others == group }
        guard
            let least = rows.min(by: { ($0.value.weight, $0.value.number) < ($1.value.weight, $1.value.number) })
        else { return nil }
        places[least.key] = nil
        sizes[group, default: 1] -= 1
        update(group) { $0.add(least.value.row) }
        return group == key.others ? least.value.weight : 0
    }
}

extension ObservedRequests.Row {
    fileprivate mutating func count(_ denial: Denial?) {
        requests += 1
        if let denial { denials[denial, default: 0] += 1 } else { passed += 1 }
    }

    fileprivate mutating func add(_ other: Self) {
        requests += other.requests
        passed += other.passed
        denials.merge(other.denials, uniquingKeysWith: +)
    }

    fileprivate func since(_ earlier: Self) -> Self {
        var row = Self()
        row.requests = requests &- earlier.requests
        row.passed = passed &- earlier.passed
        for (denial, count) in denials where count > earlier.denials[denial] ?? 0 {
            row.denials[denial] = count - (earlier.denials[denial] ?? 0)
        }
        return row
    }
}

/// What a client calls itself: the first product of User-Agent (RFC 9110 section 10.1.5), such as `Records/4.2`.
enum ClientVersion {
    /// Longer ones are cut.
    private static let limit = 40

    /// - Returns: Visible ASCII without quotes. Empty if there is none.
    static func text(of userAgent: Span<UInt8>) -> String {
        var bytes: [UInt8] = []
        for index in userAgent.indices {
            let byte = userAgent[index]
            guard bytes.count < limit, byte > 0x20, byte < 0x7f, byte != 0x22, byte != 0x5c else { break }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
