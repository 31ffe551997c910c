package import Vocabulary

/// Requests of routes that are not enforced on every device, by route, app and version: from these an operator sees
/// whom enforcement would lock out.
package struct ObservedRequests: Sendable, Equatable {
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
    }

    package struct Row: Sendable, Equatable {
        package fileprivate(set) var requests: UInt64 = 0
        /// Those that enforcement forwards, too.
        package fileprivate(set) var passed: UInt64 = 0
        /// The others, by the denial that is or would be theirs.
        package fileprivate(set) var denials: [Denial: UInt64] = [:]
    }

    package private(set) var rows: [Key: Row] = [:]

    /// The maximum number of rows. Further versions of an app share one row of their route and app.
    static let limit = 256
    /// The version of such a row.
    package static let others = "_others"

    package init() {}

    /// Counts a request.
    ///
    /// - Parameter denial: The denial that is its own, or would be. Nil if it passed.
    mutating func count(_ key: Key, _ denial: Denial?) {
        var key = key
        if rows[key] == nil, rows.count >= Self.limit {
            // These rows come on top of the maximum. Routes and apps are configured, so they are few.
            key = Key(route: key.route, app: key.app, version: Self.others)
        }
        rows[key, default: Row()].count(denial)
    }

    /// Adds the counts of another worker.
    ///
    /// - Parameter names: Those of all sums that are compared.
    package mutating func add(_ other: ObservedRequests, _ names: inout Names) {
        for (key, row) in other.rows { rows[names.place(of: key), default: Row()].add(row) }
    }

    /// The rows of sums over workers, each of which may have met other versions. What has a row keeps it, so that later
    /// sums can be compared with earlier ones.
    package struct Names {
        private var known: Set<Key> = []

        package init() {}

        fileprivate mutating func place(of key: Key) -> Key {
            guard key.version != ObservedRequests.others, !known.contains(key) else { return key }
            guard known.count < ObservedRequests.limit else {
                return Key(route: key.route, app: key.app, version: ObservedRequests.others)
            }
            known.insert(key)
            return key
        }
    }

    /// Returns what was counted since an earlier moment.
    package func since(_ earlier: ObservedRequests) -> ObservedRequests {
        var difference = ObservedRequests()
        for (key, row) in rows {
            let new = row.since(earlier.rows[key] ?? Row())
            if new.requests > 0 { difference.rows[key] = new }
        }
        return difference
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
