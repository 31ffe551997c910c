public import Vocabulary

/// A route: the requests that go to an upstream, and their required proof.
public struct RouteConfiguration: Equatable, Sendable {
    /// The name in logs and metrics. Paths may contain patients' identifiers; names do not.
    public let name: String
    /// The host in lower case, without a port. IPv6 is canonical and in brackets.
    public let host: String
    /// A prefix that ends on a segment boundary: `/a` covers `/a` and `/a/b`, not `/ab`.
    public let path: String
    /// At least one method.
    public let methods: Set<Method>
    public let require: Requirement
    /// The configured apps whose devices are accepted: all, unless the route names its own. Unused where `require` is
    /// `certificate`.
    public let apps: [AppID]
    /// Names of request fields, in lower case, that a proof must cover besides the built-in components.
    public let components: [String]
    /// The name of an existing upstream.
    public let upstream: String
    /// The maximum content of a request, in bytes.
    public let contentLimit: Int
    /// The idle timeout and the rate of content. Nil for `timeouts.content_idle` and `timeouts.content_rate`.
    public let contentIdle: Duration?
    /// The handling of content: `collect` unless the route requires a proof.
    public let body: Body
    /// Whether a request may open a WebSocket. If so, GET is among the methods.
    public let websocket: WebSocket
    /// Names of request fields, in lower case, that are forwarded although they have characters besides letters, digits
    /// and `-`.
    public let unusualFields: [String]
    /// The rate of requests to the upstream, over all clients.
    public let rate: RateConfiguration?

    /// A method that the gateway forwards.
    public enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case head = "HEAD"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
        case options = "OPTIONS"
    }

    /// The required proof, weakest first. Each level includes the one before.
    public enum Requirement: String, CaseIterable, Sendable {
        /// The client has a valid certificate.
        case certificate
        /// The certificate's key is bound to a registered device.
        case device
        /// The device's app made a proof for exactly this request.
        case requestProof = "request-proof"

        /// The default level.
        static let standard = requestProof
    }

    /// The order of forwarding and verifying the content of a request with a proof.
    public enum Body: String, CaseIterable, Sendable {
        /// Forwards content after all of it matches its digest.
        case collect
        /// Forwards content as it arrives, except for the last byte.
        case stream

        static let standard = collect
    }

    /// The treatment of a request for a WebSocket.
    public enum WebSocket: String, CaseIterable, Sendable {
        /// Forwards an ordinary request without the upgrade.
        case ignored
        /// Opens a tunnel if the service agrees.
        case allowed

        static let standard = ignored
    }
}

extension RouteConfiguration.Requirement: Comparable {
    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .certificate: 0
        case .device: 1
        case .requestProof: 2
        }
    }
}

extension RouteConfiguration {
    enum Keys {
        static let name = Key(
            "name", .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse),
            whenMissing: .refused,
            "The name of the route in logs and metrics.")
        static let host = Key(
            "host",
            .text(
                "a name or address in lower case, IPv6 in brackets, no port", matching: HostName.pattern, HostName.parse
            ),
            whenMissing: .refused, "The host of the requests.")
        static let path = Key(
            "path", .text(PathPrefix.expected, matching: PathPrefix.pattern, PathPrefix.parse), whenMissing: .refused,
            "The path prefix of the requests; the longest matching prefix wins.")
        static let methods = Key(
            "methods", .distinct(.choice as Kind<Method>, minimum: 1),
            whenMissing: .means("[\(Method.allCases.map(\.rawValue).joined(separator: ", "))]"),
            "The allowed methods.")
        static let require = Key(
            "require", .choice as Kind<Requirement>, whenMissing: .means(Requirement.standard.rawValue),
            "What a request must prove.")
        static let apps = Key(
            "apps", .distinct(.appID, minimum: 1), whenMissing: .allowed,
            "The apps whose devices are allowed.")
        static let components = Key(
            "components",
            .distinct(
                .text(ConfiguredFieldName.expectedComponent, ConfiguredFieldName.parseComponent), minimum: 0, maximum: 8
            ),
            whenMissing: .means("[]"),
            "Request fields that a proof must cover in addition to the built-in components.")
        static let upstream = Key(
            "upstream", .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse),
            whenMissing: .refused,
            "The upstream that requests are forwarded to.")
        static let contentLimit = Key(
            "content_limit", .size(0...(1 << 30)), unit: "bytes", whenMissing: .means("1MiB"),
            "The maximum size of request content.")
        static let contentIdle = Key(
            "content_idle", .duration(.milliseconds(100) ... .seconds(86_400)), whenMissing: .allowed,
            "The maximum pause of a client within the content of a request, in place of a minimum rate.")
        static let body = Key(
            "body", .choice as Kind<Body>, whenMissing: .means(Body.standard.rawValue),
            "Whether the content of a request with a proof is forwarded before or after it is verified.")
        static let websocket = Key(
            "websocket", .choice as Kind<WebSocket>, whenMissing: .means(WebSocket.standard.rawValue),
            "Whether a request may open a WebSocket.")
        static let unusualHeaders = Key(
            "unusual_headers",
            .distinct(.text(ConfiguredFieldName.expectedUnusual, ConfiguredFieldName.parseUnusual), minimum: 0),
            whenMissing: .means("[]"),
            "Request fields to forward although their names have other characters than letters, digits and -.")
        static let rate = Key(
            "rate", .rate, unit: "requests of all clients", whenMissing: .allowed,
            "The maximum rate of requests to the upstream.")

        static let section = Section(
            path: "routes",
            settings: [
                name.setting, host.setting, path.setting, methods.setting, require.setting, apps.setting,
                components.setting, upstream.setting, contentLimit.setting, contentIdle.setting, body.setting,
                websocket.setting, unusualHeaders.setting, rate.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let name = reader.read(Keys.name)
        let host = reader.read(Keys.host)
        let path = reader.read(Keys.path)
        let methods = reader.read(Keys.methods)
        let require = reader.read(Keys.require)
        let apps = Self.read(Keys.apps, from: .device, require, reader, reading)
        let components = Self.read(Keys.components, from: .requestProof, require, reader, reading)
        let upstream = reader.read(Keys.upstream)
        let contentLimit = reader.read(Keys.contentLimit)
        let contentIdle = reader.read(Keys.contentIdle)
        let body = Self.read(Keys.body, from: .requestProof, require, reader, reading)
        let websocket = reader.read(Keys.websocket)
        if websocket == .allowed, let methods, !methods.contains(.get) {
            reading.refuse(
                reader.place(of: Keys.websocket), "`websocket: allowed` has no effect without the method GET",
                expected: "GET among the `methods`, or no `websocket`")
            return nil
        }
        let unusualFields = reader.read(Keys.unusualHeaders)
        let rate = reader.read(Keys.rate)
        guard let name, let host, let path, let methods, let require, let components, let upstream, let contentLimit,
            let body, let websocket, let unusualFields, contentIdle != nil || !reader.has(Keys.contentIdle)
        else { return nil }
        self.init(
            name: name, host: host, path: path, methods: Set(methods), require: require, apps: apps ?? [],
            components: components, upstream: upstream, contentLimit: contentLimit, contentIdle: contentIdle,
            body: body, websocket: websocket, unusualFields: unusualFields, rate: rate)
    }

    /// Reads a key that has an effect only from a certain level on. Below that level the key is refused: its author
    /// would rely on a protection that does not exist.
    private static func read<Value>(
        _ key: Key<Value>, from least: Requirement, _ require: Requirement?, _ reader: SectionReader, _ reading: Reading
    ) -> Value? {
        guard reader.has(key), let require, require < least else { return reader.read(key) }
        let levels = Requirement.allCases.filter { $0 >= least }.map { "`require: \($0.rawValue)`" }
        reading.refuse(
            reader.place(of: key), "`\(key.setting.name)` has no effect with `require: \(require.rawValue)`",
            expected: "\(levels.joined(separator: " or ")), or no `\(key.setting.name)`")
        return nil
    }

    /// Returns the route for the devices of these apps.
    func admitting(_ apps: [AppID]) -> RouteConfiguration {
        RouteConfiguration(
            name: name, host: host, path: path, methods: methods, require: require, apps: apps, components: components,
            upstream: upstream, contentLimit: contentLimit, contentIdle: contentIdle, body: body,
            websocket: websocket, unusualFields: unusualFields, rate: rate)
    }
}

/// Rules between the routes of a conf file.
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

    /// Refuses two routes for one request: the protection would depend on their order.
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

    /// Warns of `*` in paths. Elsewhere `/x/*` means all paths below `/x`; here it matches only a literal star.
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

    /// Returns pairs of indices: a route, and a stricter route with the same host and upstream below its path.
    ///
    /// If the upstream interprets paths more loosely than the gateway, the stricter route's paths are reachable through
    /// the weaker route.
    static func weakerThanLonger(_ routes: [RouteConfiguration]) -> [(weaker: Int, stronger: Int)] {
        // Routes of one level have no such pair, so the quadratic comparison is unnecessary.
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
    /// A list of at least one route.
    static var routes: Kind {
        .list(
            of: .section(RouteConfiguration.Keys.section, RouteConfiguration.init), minimum: 1,
            check: RouteRelations.check)
    }
}
