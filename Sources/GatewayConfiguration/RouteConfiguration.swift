/// Which requests go to an upstream, and what they must prove.
public struct RouteConfiguration: Equatable, Sendable {
    /// For logs and metrics: paths hold patients' identifiers, names do not.
    public let name: String
    /// In lower case, without a port; IPv6 in brackets and canonical.
    public let host: String
    /// A prefix that ends on a segment boundary: `/a` covers `/a` and `/a/b`, not `/ab`.
    public let path: String
    /// Not empty.
    public let methods: Set<Method>
    public let require: Requirement
    /// The name of an upstream that exists.
    public let upstream: String
    /// The largest content of a request, in bytes.
    public let contentLimit: Int

    /// All methods the gateway forwards.
    public enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case head = "HEAD"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
        case options = "OPTIONS"
    }

    /// What a request must prove, weakest first; each level demands what the one before does.
    public enum Requirement: String, CaseIterable, Sendable {
        /// The client has a valid certificate.
        case certificate
        /// The certificate's key is bound to a registered device.
        case device
        /// The device's app made a proof for exactly this request.
        case requestProof = "request-proof"
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
            "name", .text(Name.expected, Name.parse), whenMissing: .refused,
            "What the route is called in logs and metrics.")
        static let host = Key(
            "host", .text("a name or address in lower case, IPv6 in brackets, no port", HostName.parse),
            whenMissing: .refused, "The host that requests must name.")
        static let path = Key(
            "path", .text(PathPrefix.expected, PathPrefix.parse), whenMissing: .refused,
            "The path below which the route applies; the longest that fits wins.")
        static let methods = Key(
            "methods", .distinct(.choice as Kind<Method>, minimum: 1),
            whenMissing: .means("[\(Method.allCases.map(\.rawValue).joined(separator: ", "))]"),
            "The methods that are let through.")
        static let require = Key(
            "require", .choice as Kind<Requirement>, whenMissing: .means("request-proof"),
            "What a request must prove.")
        static let upstream = Key(
            "upstream", .text(Name.expected, Name.parse), whenMissing: .refused,
            "The name of the upstream that requests are forwarded to.")
        static let contentLimit = Key(
            "content_limit", .size(0...(1 << 30)), unit: "bytes", whenMissing: .means("1MiB"),
            "The largest content that a request may have.")

        static let section = Section(
            path: "routes",
            settings: [
                name.setting, host.setting, path.setting, methods.setting, require.setting, upstream.setting,
                contentLimit.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let name = reader.read(Keys.name)
        let host = reader.read(Keys.host)
        let path = reader.read(Keys.path)
        let methods = reader.read(Keys.methods)
        let require = reader.read(Keys.require)
        let upstream = reader.read(Keys.upstream)
        let contentLimit = reader.read(Keys.contentLimit)
        if let require { Self.checkAvailable(require, reader, reading) }
        guard let name, let host, let path, let methods, let require, let upstream, let contentLimit else {
            return nil
        }
        self.init(
            name: name, host: host, path: path, methods: Set(methods), require: require, upstream: upstream,
            contentLimit: contentLimit)
    }

    /// A level that cannot be enforced is refused, never weakened: the default too.
    private static func checkAvailable(_ require: Requirement, _ reader: SectionReader, _ reading: Reading) {
        guard require != .certificate else { return }
        let subject =
            reader.has(Keys.require)
            ? "`require: \(require.rawValue)`" : "`require` is missing, and its default `\(require.rawValue)`"
        reading.refuse(
            reader.place(of: Keys.require), "\(subject) is not yet available in this version",
            expected: "`require: certificate`, the one level that is")
    }
}
