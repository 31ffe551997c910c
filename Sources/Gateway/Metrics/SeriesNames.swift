/// The names that a metric has had since the process began, each with its place in the arrays that are counted in.
///
/// A place is never given to another name, so the counts of a route or upstream continue across reloads.
struct SeriesNames: Sendable {
    /// What no name of the configuration is, for they begin with a letter or digit.
    static let none = "_none"
    /// All names beyond the limit.
    static let others = "_others"

    private(set) var names: [String]
    private var places: [String: Int]

    /// A process that reloads with new names each time must fill neither its own memory nor that of the metrics client.
    private static let limit = 1_024

    init() {
        names = [Self.none, Self.others]
        places = [Self.none: 0, Self.others: 1]
    }

    /// The place of a name, which is new if it was not there.
    mutating func place(of name: String) -> Int {
        if let place = places[name] { return place }
        guard names.count < Self.limit else { return 1 }
        let place = names.count
        // A copy that no other thread refers to.
        let name = String(decoding: Array(name.utf8), as: UTF8.self)
        names.append(name)
        places[name] = place
        return place
    }

    static func isReserved(_ name: String) -> Bool { name == none || name == others }
}
