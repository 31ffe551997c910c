internal import HTTP

/// Which endpoint a request is for.
struct EndpointTable {
    let endpoints: [AdministrationEndpoint]

    enum Outcome {
        case found(AdministrationEndpoint, parameter: String)
        /// The path is known, but not with this method. - allowed: the value of Allow.
        case methodRefused(allowed: String)
        case unknown
    }

    /// - Parameter path: in its one admitted spelling (`TargetSpelling`); an empty last segment makes it another path.
    func find(_ method: HTTP.Method?, _ path: String) -> Outcome {
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let fitting = endpoints.compactMap { endpoint in endpoint.match(segments).map { (endpoint, $0) } }
        if let (endpoint, parameter) = fitting.first(where: { $0.0.method == method }) {
            return .found(endpoint, parameter: parameter)
        }
        guard !fitting.isEmpty else { return .unknown }
        return .methodRefused(allowed: fitting.map { String(describing: $0.0.method.name) }.joined(separator: ", "))
    }

    /// Parts a query into its members.
    ///
    /// - Parameter admitted: their names; any other, or one that is there twice, is refused.
    static func members(of query: String?, admitted: [String]) throws(AdministrationFault) -> [String: String] {
        var members: [String: String] = [:]
        for member in query?.split(separator: "&", omittingEmptySubsequences: false) ?? [] {
            let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, admitted.contains(parts[0]) else {
                throw .badRequest("The member '\(parts[0].prefix(40))' of the query is unknown or has no value.")
            }
            guard members.updateValue(parts[1], forKey: parts[0]) == nil else {
                throw .badRequest("The member '\(parts[0])' of the query occurs twice.")
            }
        }
        return members
    }
}
