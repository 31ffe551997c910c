package import EventLoop
package import Upstream

/// Where spans go, and as whose. Plain values, files read.
package struct ExportSettings: Sendable {
    /// The value of Host.
    let host: String
    /// What comes before `/v1/traces`: nothing, or a slash and more.
    let path: String
    /// One server.
    package let upstream: UpstreamSettings
    let resolver: ResolverSettings
    let forbidden: ForbiddenAddresses
    /// For a call.
    let timeout: TimeSpan
    /// Of `Authorization: Bearer`; nil if none is sent.
    let token: String?
    /// What all spans have in common: names and values by OpenTelemetry's semantic conventions.
    let resource: [(key: String, value: ResourceValue)]
    /// Of the gateway.
    let version: String

    package init(
        host: String, path: String, upstream: UpstreamSettings, resolver: ResolverSettings,
        forbidden: ForbiddenAddresses,
        timeout: TimeSpan, token: String?, resource: [(key: String, value: ResourceValue)],
        version: String
    ) {
        self.host = host
        self.path = path
        self.upstream = upstream
        self.resolver = resolver
        self.forbidden = forbidden
        self.timeout = timeout
        self.token = token
        self.resource = resource
        self.version = version
    }

    /// What stands before the spans in the content of a call: `ExportTraceServiceRequest` up to the list.
    var opening: [UInt8] {
        let attributes = resource.map { key, value in
            let text =
                switch value {
                case .text(let text): "\"stringValue\":\(quote(text))"
                case .number(let number): "\"intValue\":\"\(number)\""
                }
            return "{\"key\":\(quote(key)),\"value\":{\(text)}}"
        }
        return Array(
            ("{\"resourceSpans\":[{\"resource\":{\"attributes\":[\(attributes.joined(separator: ","))]},"
                + "\"scopeSpans\":[{\"scope\":{\"name\":\"attestgate\",\"version\":\(quote(version))},\"spans\":[").utf8
        )
    }

    static let closing = Array("]}]}]}".utf8)

    private func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case _ where scalar.value < 0x20: quoted += " "
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

/// What a process can say of itself.
package enum ResourceValue: Sendable {
    case text(String)
    case number(Int)
}
