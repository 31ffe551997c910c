public import Vocabulary

/// A route: the requests that go to an upstream, and their required proof.
public struct RouteConfiguration: Equatable, ConfigurationSection {
    /// Paths may contain patients' identifiers; names do not.
    @Setting(
        required: .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse),
        "The name of the route in logs and metrics.")
    public var name: String
    /// In lower case, without a port. IPv6 is canonical and in brackets.
    @Setting(
        required: .text(
            "a name or address in lower case, IPv6 in brackets, no port", matching: HostName.pattern, HostName.parse),
        "The host of the requests.")
    public var host: String
    /// A prefix that ends on a segment boundary: `/a` covers `/a` and `/a/b`, not `/ab`.
    @Setting(
        required: .text(PathPrefix.expected, matching: PathPrefix.pattern, PathPrefix.parse),
        "The path prefix of the requests; the longest matching prefix wins.")
    public var path: String
    @Setting(key: "methods", .distinct(.choice, minimum: 1), default: Method.all, "The allowed methods.")
    var methodList: [Method]
    @Setting(.choice, default: Requirement.standard.rawValue, "What a request must prove.")
    public var require: Requirement
    /// Only where a device is required.
    @Setting(
        .text(EnforcedPercentage.expected, matching: EnforcedPercentage.pattern, EnforcedPercentage.parse),
        default: "always",
        "Whether requests that fail what the route requires are refused: always, for a share of devices, or never.")
    public var enforce: EnforcedPercentage
    @Setting(key: "apps", .distinct(AppID.kind, minimum: 1), isIndependent: true, "The apps whose devices are allowed.")
    var namedApps: [AppID]?
    /// Only where there is a certificate.
    @Setting(
        .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse), isIndependent: true,
        "The policy that devices must satisfy.")
    public var policy: String?
    /// Only where there is a certificate.
    @Setting(
        .choice, isIndependent: true,
        "Whether a request needs, or may have, a device token of the issuer in device_tokens.")
    public var deviceToken: DeviceToken?
    /// Only where there is a certificate.
    @Setting(
        .choice, isIndependent: true,
        "With `dsr`, refusals by device token and policy have the form of gematik's reference system.")
    public var profile: Profile?
    /// In lower case.
    @Setting(
        .distinct(
            .text(ConfiguredFieldName.expectedComponent, ConfiguredFieldName.parseComponent), minimum: 0, maximum: 8),
        default: "[]", "Request fields that a proof must cover in addition to the built-in components.")
    public var components: [String]
    @Setting(
        required: .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse),
        "The upstream that requests are forwarded to.")
    public var upstream: String
    @Setting(.size(0...(1 << 30)), unit: "bytes", default: "1MiB", "The maximum size of request content.")
    public var contentLimit: Int
    /// Nil for `timeouts.content_idle` and `timeouts.content_rate`.
    @Setting(
        .duration(.milliseconds(100) ... .seconds(86_400)),
        "The maximum pause of a client within the content of a request, in place of a minimum rate.")
    public var contentIdle: Duration?
    /// `collect` unless the route requires a proof.
    @Setting(
        .choice, default: "collect",
        "Whether the content of a request with a proof is forwarded before or after it is verified.")
    public var body: Body
    /// If allowed, GET is among the methods.
    @Setting(.choice, default: "ignored", "Whether a request may open a WebSocket.")
    public var websocket: WebSocket
    /// In lower case.
    @Setting(
        key: "unusual_headers",
        .distinct(.text(ConfiguredFieldName.expectedUnusual, ConfiguredFieldName.parseUnusual), minimum: 0),
        default: "[]",
        "Request fields to forward although their names have other characters than letters, digits and -.")
    public var unusualFields: [String]
    @Setting(.choice, default: "strict", "Which spellings of the request target are accepted.")
    public var targets: Targets
    @Setting(
        .distinct(.choice, minimum: 0), default: "[]",
        "Characters to accept in paths although services read them in several ways.")
    public var pathCharacters: [PathCharacter]
    @Setting(
        .rate, unit: "requests of all clients", isIndependent: true, "The maximum rate of requests to the upstream.")
    public var rate: RateConfiguration?
    /// Only where a device is required.
    @Setting(
        .distinct(.choice, minimum: 0), default: "[]",
        "What the service learns of the device beyond its pseudonym.")
    public var identity: [Identity]
    /// Only silences the warning about these pairs of routes.
    @Setting(
        .distinct(
            .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse), minimum: 1),
        isIndependent: true,
        "The routes below this path that require more, if the upstream is known to distinguish them.")
    var stricterBelow: [String]?

    static let section = Section("routes", of: Self.self)

    /// The configured apps whose devices are accepted: all, unless the route names its own. Unused where `require` is
    /// less than `device`.
    public private(set) var apps: [AppID] = []

    /// At least one method.
    public var methods: Set<Method> { Set(methodList) }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        if _websocket.value == .allowed, let methods = _methodList.value, !methods.contains(.get) {
            reading.refuse(
                _websocket.place, "`websocket: allowed` has no effect without the method GET",
                expected: "GET among the `methods`, or no `websocket`")
            return false
        }
        if let enforce = _enforce.value, enforce.percent < 100, let name = _name.value {
            reading.warn(
                _enforce.place,
                enforce.percent == 0
                    ? "the route `\(name)` observes only: requests that fail `require` are forwarded"
                    : "the route `\(name)` is enforced on \(enforce) of devices: requests of the others that fail "
                        + "`require` are forwarded",
                expected: "`enforce: always` as soon as `attestgate status` shows that all requests would pass")
        }
        return true
    }

    /// Refuses a key that has an effect only from a higher level on: its author would rely on a protection that does not
    /// exist.
    func hasEffect(_ key: String, at place: Place, _ reading: Reading) -> Bool {
        let least: Requirement
        switch key {
        case "apps", "enforce", "identity": least = .device
        case "components", "body": least = .requestProof
        case "device_token": least = .certificate
        default: return true
        }
        guard let require = _require.value, require < least else { return true }
        let levels = Requirement.allCases.filter { $0 >= least }.map { "`require: \($0.rawValue)`" }
        reading.refuse(
            place, "`\(key)` has no effect with `require: \(require.rawValue)`",
            expected: "\(levels.joined(separator: " or ")), or no `\(key)`")
        return false
    }

    /// A method that the gateway forwards.
    public enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case head = "HEAD"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
        case options = "OPTIONS"

        /// All methods in the notation of the conf file.
        fileprivate static let all = "[\(allCases.map(\.rawValue).joined(separator: ", "))]"
    }

    /// The required proof, weakest first. From `certificate` on, each level includes the one before.
    public enum Requirement: String, CaseIterable, Sendable {
        /// The client may have no certificate, where a listener does not demand one.
        case nothing
        /// The client has a client attestation and proves possession of its key. It may have no certificate.
        case clientAttestation = "client-attestation"
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
    }

    /// The accepted spellings of a target.
    public enum Targets: String, CaseIterable, Sendable {
        /// One spelling of each path, and queries by RFC 3986.
        case strict
        /// What browsers and their URL libraries send.
        case common
    }

    /// A character of paths that services read in several ways.
    public enum PathCharacter: String, CaseIterable, Sendable {
        /// `;` and `%3B`, behind which some services see parameters that are no part of the segment.
        case semicolon
        /// `%2F`, which some services take for a separator.
        case encodedSlash = "encoded-slash"
    }

    /// A field about the device that the service receives.
    public enum Identity: String, CaseIterable, Sendable {
        /// `Attest-Subject`, the pseudonym of the person.
        case subject
        /// `Attest-Posture`, the facts that are known of the device.
        case posture
    }

    public enum DeviceToken: String, CaseIterable, Sendable {
        case required
        /// A request may have none. One that it has must be valid.
        case optional
    }

    /// The form of refusals by device token and policy.
    public enum Profile: String, CaseIterable, Sendable {
        case dsr
    }

    /// The treatment of a request for a WebSocket.
    public enum WebSocket: String, CaseIterable, Sendable {
        /// Forwards an ordinary request without the upgrade.
        case ignored
        /// Opens a tunnel if the service agrees.
        case allowed
    }
}

/// The share of devices on which a route is enforced.
public struct EnforcedPercentage: Equatable, Sendable {
    /// 0 for `observe`, 100 for `always`.
    public let percent: Int

    public init(percent: Int) {
        self.percent = percent
    }

    static let expected = "`always`, `observe`, or a share from 0% to 100%"
    static let pattern = "^(always|observe|(0|[1-9][0-9]?|100)%)$"

    static func parse(_ text: String) throws(InvalidValue) -> EnforcedPercentage {
        switch text {
        case "always": return EnforcedPercentage(percent: 100)
        case "observe": return EnforcedPercentage(percent: 0)
        default: break
        }
        let digits = text.hasSuffix("%") ? text.dropLast() : text[...]
        let share = Decimal.parse(digits).flatMap { $0 <= 100 ? $0 : nil }
        guard let percent = share, digits.count < text.count else {
            throw InvalidValue(
                "\(Printable.quoted(text)) is no share of devices",
                suggestion: share.map { "\($0)%" } ?? Spelling.nearest(to: text, among: ["always", "observe"]))
        }
        return EnforcedPercentage(percent: percent)
    }
}

extension EnforcedPercentage: CustomStringConvertible {
    /// The notation of the conf file.
    public var description: String { percent == 0 ? "observe" : percent == 100 ? "always" : "\(percent)%" }
}

extension RouteConfiguration.Requirement: Comparable {
    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .nothing: 0
        case .clientAttestation: 1
        case .certificate: 2
        case .device: 3
        case .requestProof: 4
        }
    }
}

extension RouteConfiguration {
    /// Whether the route names the app, or names none.
    func admits(_ app: AppID) -> Bool { namedApps?.contains(app) ?? true }

    /// Returns the route for the apps that it names, or for all.
    func admitting(_ all: [AppID]) -> RouteConfiguration {
        var route = self
        route.apps = namedApps ?? all
        return route
    }

    /// A list of at least one route.
    static var list: Kind<[Self]> { .list(of: .section, minimum: 1, check: RouteRelations.check) }
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

    /// Warns of weaker routes above stricter ones, and refuses `stricter_below` where it names no such route.
    private static func warnOfWeaker(_ routes: [PlacedRoute], _ reading: Reading) {
        let pairs = weakerThanLonger(routes.map(\.value))
        for (weaker, stronger) in pairs {
            let (route, item) = routes[weaker]
            let other = routes[stronger].value
            guard route.stricterBelow?.contains(other.name) != true else { continue }
            reading.warn(
                item.place(of: "path"),
                "the route `\(route.name)` requires less (\(route.require.rawValue)) than `\(other.name)` below it"
                    + " (\(other.require.rawValue)), and both forward to the upstream `\(route.upstream)`",
                expected: "an upstream that distinguishes the two paths exactly as the gateway does, and then"
                    + " `stricter_below: [\(other.name)]` in the route `\(route.name)`")
        }
        for (index, (route, item)) in routes.enumerated() {
            let below = pairs.filter { $0.weaker == index }.map { routes[$0.stronger].value.name }
            for (entry, name) in zip(item["stricter_below"]?.elements ?? [], route.stricterBelow ?? [])
            where !below.contains(name) {
                reading.refuse(
                    entry.place, "the route `\(route.name)` has no stricter route \(Printable.quoted(name)) below it",
                    expected: below.isEmpty
                        ? "no `stricter_below`: no route below requires more at the upstream `\(route.upstream)`"
                        : "one of: \(below.joined(separator: ", "))",
                    suggestion: Spelling.nearest(to: name, among: below))
            }
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
