internal import Gateway

/// What was counted in a table, at moments of the last day. A value whose caller passes the time.
struct ObservationHistory<Table: ObservationTable> {
    private struct Moment {
        /// In minutes of any clock.
        let minute: Int64
        let total: Table
    }

    /// Of the last hour, one for each minute.
    private var minutes: [Moment] = []
    /// Of the last day, one for each hour.
    private var hours: [Moment] = []
    /// The sum of all workers since their start.
    private var total = Table()
    /// The last table of each worker.
    private var latest: [Int: Table] = [:]

    /// Adds what the workers have counted since the last call.
    mutating func take(_ tables: [Int: Table]) {
        for (worker, table) in tables {
            total.add(table.since(latest[worker] ?? Table()))
            latest[worker] = table
        }
    }

    /// Keeps the present sum.
    ///
    /// - Parameter minute: The present minute of a clock that never goes back.
    mutating func keep(at minute: Int64) {
        guard minutes.last?.minute != minute else { return }
        minutes.append(Moment(minute: minute, total: total))
        minutes.removeAll { $0.minute < minute - 60 }
        if hours.last.map({ $0.minute <= minute - 60 }) ?? true { hours.append(Moment(minute: minute, total: total)) }
        hours.removeAll { $0.minute < minute - 24 * 60 }
    }

    /// What was counted in about the last hour, or since the first moment if that is later.
    var lastHour: Table.Rows { total.since(minutes.first?.total ?? .init()) }

    /// What was counted in about the last day.
    var lastDay: Table.Rows { total.since(hours.first?.total ?? .init()) }
}
