/// A set of configured apps, by their place in the configuration.
public struct AppSet: Equatable, Sendable {
    /// Whether the app at each place is in.
    private let members: [Bool]

    public static let none = AppSet(places: [], of: 0)

    /// - Parameters:
    ///   - places: all below `count`.
    ///   - count: how many apps there are.
    public init(places: some Sequence<Int>, of count: Int) {
        var members = [Bool](repeating: false, count: count)
        for place in places { members[place] = true }
        self.members = members
    }

    /// A copy that shares no memory with this one.
    public var unshared: AppSet { AppSet(places: members.indices.filter { members[$0] }, of: members.count) }

    public func contains(_ place: Int) -> Bool { members.indices.contains(place) && members[place] }
}
