internal import Encoding
internal import Vocabulary

/// The answer of an endpoint.
struct FederationResponse: Equatable {
    struct Field: Equatable {
        let name: String
        let value: String
    }

    let status: UInt16
    /// JSON, or empty.
    let content: [UInt8]
    private let further: [Field]

    /// The fields except those about the length. Nothing may be cached (RFC 6749 section 5.1).
    var fields: [Field] {
        let noStore = [Field(name: "Cache-Control", value: "no-store"), Field(name: "Pragma", value: "no-cache")]
        return noStore + (content.isEmpty ? [] : [Field(name: "Content-Type", value: "application/json")]) + further
    }

    private init(_ status: UInt16, _ content: [UInt8] = [], further: [Field] = []) {
        self.status = status
        self.content = content
        self.further = further
    }

    /// Without content.
    static var done: FederationResponse { FederationResponse(200) }

    static func object(_ status: UInt16 = 200, _ members: (inout JSONWriter) -> Void) -> FederationResponse {
        FederationResponse(status, JSONWriter.object(members))
    }

    /// An array of complete JSON values.
    static func array(_ elements: [[UInt8]]) -> FederationResponse {
        FederationResponse(
            200, [UInt8(ascii: "[")] + elements.joined(separator: [UInt8(ascii: ",")]) + [UInt8(ascii: "]")])
    }

    static func json(_ text: [UInt8]) -> FederationResponse { FederationResponse(200, text) }

    static func challenge(_ acceptSignature: [UInt8]?) -> FederationResponse {
        FederationResponse(204, further: field(acceptSignature))
    }

    private static func field(_ acceptSignature: [UInt8]?) -> [Field] {
        acceptSignature.map { [Field(name: "Accept-Signature", value: String(decoding: $0, as: UTF8.self))] } ?? []
    }

    /// - Parameter acceptSignature: What a proof must cover, with a new challenge, for a denial that asks for one.
    static func refusal(_ fault: FederationFault, acceptSignature: [UInt8]? = nil) -> FederationResponse {
        var fields: [Field] = []
        if let allowed = fault.allowed { fields.append(Field(name: "Allow", value: allowed)) }
        if let retryAfter = fault.retryAfter { fields.append(Field(name: "Retry-After", value: "\(retryAfter)")) }
        switch fault.error {
        // RFC 6749 section 5.2: the schemes that this server supports.
        case .invalidClient:
            fields.append(Field(name: "WWW-Authenticate", value: #"Basic realm="attestgate", charset="UTF-8""#))
        case .invalidToken:
            fields.append(Field(name: "WWW-Authenticate", value: #"Bearer realm="attestgate", error="invalid_token""#))
        case .denied where fault.denial?.asksForProof == true:
            fields.append(Field(name: "WWW-Authenticate", value: #"Signature realm="attestgate""#))
            fields += field(acceptSignature)
        default: break
        }
        let missing = fault.component.map { " Missing: \($0)." } ?? ""
        let description = fault.denial.map { "\($0.row.sentence)\(missing)" } ?? sentence(fault)
        let content = JSONWriter.object {
            $0.member("error", fault.code)
            $0.member("error_description", description)
        }
        return FederationResponse(fault.status, content, further: fields)
    }

    /// Only the log has details of internal faults.
    private static func sentence(_ fault: FederationFault) -> String {
        guard fault.status != 500 else { return "The server could not complete the request." }
        return "\(fault.reason.prefix(1).uppercased())\(fault.reason.dropFirst())."
    }
}
