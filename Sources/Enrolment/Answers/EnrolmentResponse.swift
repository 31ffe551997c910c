/// What an enrolment endpoint answers, ready to be written.
public struct EnrolmentResponse: Equatable, Sendable {
    public struct Field: Equatable, Sendable {
        public let name: String
        public let value: String
    }

    public let status: UInt16
    /// JSON, or nothing.
    public let content: [UInt8]

    private let further: [Field]

    /// Besides those that frame the content. Nothing here is for caches: nonces, certificates, verdicts of the moment.
    public var fields: [Field] {
        let noStore = Field(name: "Cache-Control", value: "no-store")
        let type = Field(name: "Content-Type", value: "application/json")
        return (content.isEmpty ? [noStore] : [noStore, type]) + further
    }

    private init(_ status: UInt16, _ content: String = "", further: [Field] = []) {
        self.status = status
        self.content = Array(content.utf8)
        self.further = further
    }

    /// `GET /nonce`. - Parameter nonce: base64url.
    public static func nonce(_ nonce: IssuedNonce) -> EnrolmentResponse {
        EnrolmentResponse(200, #"{"nonce":"\#(String(decoding: nonce.text, as: UTF8.self))"}"#)
    }

    /// `POST /instance-initialization`.
    public static var initialized: EnrolmentResponse { EnrolmentResponse(204) }

    /// `POST /key-binding`.
    public static func bound(_ issued: IssuedClientCertificate) -> EnrolmentResponse {
        let chain = issued.chain.map { #""\#($0)""# }.joined(separator: ",")
        return EnrolmentResponse(200, #"{"certificate_chain":[\#(chain)],"expires_at":\#(issued.expiresAt)}"#)
    }

    /// A refusal by any endpoint. What went wrong inside of the service is for its log.
    public static func refusal(_ fault: EnrolmentFault) -> EnrolmentResponse {
        let row = fault.error.row
        let description = fault.error.isOurs ? "\(row.sentence)" : "\(row.sentence) Here: \(fault.reason)."
        return refusal(row.status, row.code, description, retryAfter: fault.retryAfter)
    }

    /// A refusal before any endpoint has looked at the content.
    static func refusal(_ fault: EnrolmentRequestFault) -> EnrolmentResponse {
        let allowed = fault.allowed.map { [Field(name: "Allow", value: $0)] } ?? []
        return refusal(
            fault.status, fault.error.row.code, fault.description, retryAfter: fault.retryAfter, further: allowed)
    }

    private static func refusal(
        _ status: UInt16, _ code: StaticString, _ description: String, retryAfter: Int?, further: [Field] = []
    ) -> EnrolmentResponse {
        let retry = retryAfter.map { [Field(name: "Retry-After", value: "\($0)")] } ?? []
        return EnrolmentResponse(
            status, #"{"error":"\#(code)","error_description":"\#(escaped(description))"}"#, further: further + retry)
    }

    /// Our own sentences are ASCII without controls, but may quote (RFC 8259 section 7).
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { escaped.unicodeScalars.append("\\") }
            escaped.unicodeScalars.append(scalar)
        }
        return escaped
    }
}
