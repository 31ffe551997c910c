/// What holds between the routes of a conf file.
enum RouteRelations {
    typealias PlacedRoute = (value: RouteConfiguration, item: Item)

    static func check(_ routes: [PlacedRoute], _ reading: Reading) {
        checkNames(routes, reading)
        checkOverlaps(routes, reading)
        warnOfWeaker(routes, reading)
        warnOfStars(routes, reading)
    }

    private static func checkNames(_ routes: [PlacedRoute], _ reading: Reading) {
        var places: [String: Place] = [:]
        for (route, item) in routes {
            let place = item.place(of: "name")
            if let other = places[route.name] {
                reading.refuse(
                    place,
                    "the name `\(route.name)` is already used by the route \(reading.line(of: other, from: place))")
            } else {
                places[route.name] = place
            }
        }
    }

    /// Two routes for one request: which of them applies would depend on their order, and so would the protection.
    private static func checkOverlaps(_ routes: [PlacedRoute], _ reading: Reading) {
        struct Target: Hashable {
            let host: String
            let path: String
            let method: RouteConfiguration.Method
        }
        var owners: [Target: String] = [:]
        for (route, item) in routes {
            var shared: [(method: String, owner: String)] = []
            for method in RouteConfiguration.Method.allCases where route.methods.contains(method) {
                let target = Target(host: route.host, path: route.path, method: method)
                if let owner = owners[target] {
                    shared.append((method.rawValue, owner))
                } else {
                    owners[target] = route.name
                }
            }
            guard let first = shared.first else { continue }
            reading.refuse(
                item.place(of: "path"),
                "the route `\(first.owner)` already has the same host and path for "
                    + shared.map(\.method).joined(separator: ", "),
                expected: "another host or path, or other methods")
        }
    }

    /// Elsewhere `/x/*` stands for all paths below `/x`; here it fits the path that has the star in it, which nobody asks for.
    private static func warnOfStars(_ routes: [PlacedRoute], _ reading: Reading) {
        for (route, item) in routes where route.path.split(separator: "/").contains("*") {
            reading.warn(
                item.place(of: "path"),
                "`*` is a literal character: the route `\(route.name)` matches only paths that contain it",
                expected: "a path without it, which also matches all paths below")
        }
    }

    private static func warnOfWeaker(_ routes: [PlacedRoute], _ reading: Reading) {
        for (weaker, stronger) in weakerThanLonger(routes.map(\.value)) {
            let (route, item) = routes[weaker]
            let other = routes[stronger].value
            reading.warn(
                item.place(of: "path"),
                "the route `\(route.name)` requires less (\(route.require.rawValue)) than `\(other.name)` below it"
                    + " (\(other.require.rawValue)), and both forward to the upstream `\(route.upstream)`",
                expected: "an upstream that distinguishes the two paths exactly as the gateway does")
        }
    }

    /// Pairs of indices: a route, and another with the same host and upstream whose path is longer and below its own,
    /// and which requires more. If the upstream reads paths more loosely than the gateway, what the second protects
    /// can be reached through the first.
    static func weakerThanLonger(_ routes: [RouteConfiguration]) -> [(weaker: Int, stronger: Int)] {
        // Routes of one strength have no such pair; comparing all with all is for those that differ.
        guard Set(routes.map(\.require)).count > 1 else { return [] }
        return routes.indices.flatMap { weaker in
            routes.indices.filter { stronger in
                routes[weaker].require < routes[stronger].require
                    && routes[weaker].host == routes[stronger].host
                    && routes[weaker].upstream == routes[stronger].upstream
                    && covers(routes[weaker].path, routes[stronger].path)
            }.map { (weaker, $0) }
        }
    }

    private static func covers(_ prefix: String, _ path: String) -> Bool {
        path != prefix && (prefix == "/" || path.hasPrefix(prefix + "/"))
    }
}

extension Kind where Value == [RouteConfiguration] {
    /// At least one.
    static var routes: Kind {
        .list(
            of: .section(RouteConfiguration.Keys.section, RouteConfiguration.init), minimum: 1,
            check: RouteRelations.check)
    }
}
