public import HTTP

/// Finds the route of a request: the host's, with the longest prefix that covers the path, and of those with that prefix
/// the one that admits the method.
///
/// Each worker builds its own: an array shared by threads would have its reference count passed between cores.
public struct RouteTable {
    public enum Match: Equatable {
        /// Index into `routes`.
        case route(Int)
        /// The path is known, the method is not admitted. The index is of a route that covers the path.
        case methodRefused(Int)
        case hostUnknown
        /// Of a host that has routes.
        case pathUnknown
    }

    /// In the order in which they are tried: longest prefix first.
    public let routes: [Route]
    /// Of each, the first route that has the same host.
    private let hosts: [Int]

    public init(_ routes: [Route]) {
        let routes = routes.sorted { $0.prefix.count > $1.prefix.count }
        self.routes = routes
        hosts = routes.map { route in routes.firstIndex { $0.host == route.host } ?? 0 }
    }

    /// The value of the Allow field (RFC 9110 section 10.2.1): what the path admits by any of the routes that share it.
    public func allow(at index: Int) -> [UInt8] {
        let methods = routes.filter { $0.host == routes[index].host && $0.prefix == routes[index].prefix }
            .reduce(into: MethodSet()) { $0.formUnion($1.methods) }
        let names = Method.allCases.filter(methods.contains).map { String(describing: $0.name) }
        return Array(names.joined(separator: ", ").utf8)
    }

    public func match(host: Span<UInt8>, path: Span<UInt8>, method: Method?) -> Match {
        var refused: Int?
        // The one whose host it is. Until that is found, each is compared.
        var known: Int?
        for index in routes.indices {
            if let refused, routes[index].prefix.count < routes[refused].prefix.count { break }
            guard known.map({ $0 == hosts[index] }) ?? host.equals(lowercase: routes[index].host) else { continue }
            known = hosts[index]
            guard routes[index].covers(path) else { continue }
            if let method, routes[index].methods.contains(method) { return .route(index) }
            refused = refused ?? index
        }
        return refused.map { .methodRefused($0) } ?? (known == nil ? .hostUnknown : .pathUnknown)
    }
}
