public import HTTP

/// A table that finds the route of a request. Among the host's routes, the longest prefix that covers the path wins.
/// Among routes with that prefix, the one that permits the method wins.
///
/// Each worker builds its own table. If threads shared the array, its reference count would move between cores.
public struct RouteTable {
    public enum Match: Equatable {
        /// Index into `routes`.
        case route(Int)
        /// The path matches, but the method is not permitted. The index is that of a route that covers the path.
        case methodRefused(Int)
        case hostUnknown
        /// The host has routes, but none covers the path.
        case pathUnknown
    }

    /// The routes in the order of matching: longest prefix first.
    public let routes: [Route]
    /// Each route's index of the first route with the same host.
    private let hosts: [Int]

    public init(_ routes: [Route]) {
        let routes = routes.sorted { $0.prefix.count > $1.prefix.count }
        self.routes = routes
        hosts = routes.map { route in routes.firstIndex { $0.host == route.host } ?? 0 }
    }

    /// Returns the value of the Allow field (RFC 9110 section 10.2.1): the methods of all routes with the same prefix.
    public func allow(at index: Int) -> [UInt8] {
        let methods = routes.filter { $0.host == routes[index].host && $0.prefix == routes[index].prefix }
            .reduce(into: MethodSet()) { $0.formUnion($1.methods) }
        let names = Method.allCases.filter(methods.contains).map { String(describing: $0.name) }
        return Array(names.joined(separator: ", ").utf8)
    }

    /// Returns whether every field with an unusual name is one that the route at an index admits.
    ///
    /// - Parameter bytes: what the ranges of `head` refer to.
    public func admitsNames(of head: RequestHead, _ bytes: Span<UInt8>, at index: Int) -> Bool {
        routes[index].admitsNames(of: head, bytes)
    }

    /// Returns the objection to the target of a request that matches a route, or nil if there is none.
    ///
    /// A path that services may read in several ways must lead to the same route in each of them. Otherwise a service
    /// could execute a request under the requirements of another route than that of its path.
    ///
    /// - Parameters:
    ///   - index: the matched route.
    ///   - bytes: what the ranges of `head` refer to.
    public func targetFault(of head: RequestHead, _ bytes: Span<UInt8>, at index: Int) -> TargetFault? {
        guard !head.targetForms.isEmpty else { return nil }
        let admitted = routes[index].targetForms
        guard head.targetForms.isSubset(of: admitted) else { return head.targetFault(bytes, admitting: admitted) }
        guard head.targetForms.concernPath else { return nil }
        let isAmbiguous = TargetSpelling.readings(of: head.path.of(bytes), with: head.targetForms).contains {
            match(host: head.host.of(bytes), path: $0.span, method: head.routedMethod) != .route(index)
        }
        // Without a form the path is refused at the first byte that has several readings.
        return isAmbiguous ? head.targetFault(bytes, admitting: .commonQuery) : nil
    }

    public func match(host: Span<UInt8>, path: Span<UInt8>, method: Method?) -> Match {
        var refused: Int?
        // The first route of the request's host. Until it is found, each route's host is compared.
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
