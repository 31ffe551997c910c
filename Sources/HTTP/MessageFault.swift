/// A fault of a message. It is the only error of this module's parsers.
public enum MessageFault: Error, Equatable, Sendable, CaseIterable {
    // Lines (RFC 9112 section 2.2).
    case bareCarriageReturn
    case bareLineFeed
    // The request line (RFC 9112 section 3).
    case requestLineMalformed
    case versionUnsupported
    case targetTooLong
    case targetForm
    case targetDisagreesWithHost
    case pathSpelling
    case querySpelling
    // Fields (RFC 9112 section 5, RFC 9110 section 5).
    case fieldNameMalformed
    case fieldNameUnusual
    case spaceBeforeColon
    case fieldValueMalformed
    case obsoleteLineFolding
    case tooManyFields
    case headTooLarge
    // Host (RFC 9112 section 3.2).
    case hostMissing
    case hostRepeated
    case hostMalformed
    // Framing (RFC 9112 section 6).
    case contentLengthMalformed
    case contentLengthRepeated
    case contentLengthWithTransferEncoding
    case contentUnexpected
    case transferEncodingUnsupported
    case chunkMalformed
    case trailerTooLarge
    case trailerNamesFraming
    // Other fields.
    case connectionNamesField
    case connectionMalformed
    case expectationUnknown
    case fieldRepeated
    // HTTP/2 (RFC 9113 section 8).
    case pseudoFieldUnknown
    case pseudoFieldRepeated
    case pseudoFieldMissing
    case pseudoFieldLate
    case schemeUnsupported
    case connectUnsupported
    case fieldNameUpperCase
    case fieldOfConnection
    case contentLengthDisagrees
    case trailersUnended
    case fieldsInTunnel
    // Responses.
    case statusLineMalformed
    case contentImpossible
    case interimResponsesRepeated
    case headMissing
    case protocolSwitched
}

extension MessageFault {
    /// The refusal to which the fault leads.
    public enum Kind: Sendable {
        case malformed
        case fieldRefused
        case targetTooLong
        case headTooLarge
    }

    public var kind: Kind {
        switch self {
        case .targetTooLong: .targetTooLong
        case .headTooLarge, .tooManyFields, .trailerTooLarge: .headTooLarge
        case .fieldNameUnusual, .connectionNamesField, .expectationUnknown, .fieldRepeated: .fieldRefused
        default: .malformed
        }
    }

    /// The reason for the log and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .bareCarriageReturn: "a carriage return without a line feed"
        case .bareLineFeed: "a line feed without a carriage return"
        case .requestLineMalformed: "the request line is not METHOD SP target SP HTTP/1.1"
        case .versionUnsupported: "the HTTP version is neither 1.1 nor 1.0"
        case .targetTooLong: "the request target is too long"
        case .targetForm: "the request target is not a path, or an absolute https URI"
        case .targetDisagreesWithHost: "the authority of the request target is not the Host field's"
        case .pathSpelling: "the path is not in normal form: it has //, ;, a dot segment, or a refused percent-encoding"
        case .querySpelling: "the query is empty or holds a character that must be percent-encoded"
        case .fieldNameMalformed: "a field line has no valid name"
        case .fieldNameUnusual: "a field name holds a character that servers may confuse with '-'"
        case .spaceBeforeColon: "there is white space before the colon of a field"
        case .fieldValueMalformed: "a field value holds a control character"
        case .obsoleteLineFolding: "a field value is folded over several lines"
        case .tooManyFields: "there are too many header fields"
        case .headTooLarge: "the message head is too large"
        case .hostMissing: "there is no Host field"
        case .hostRepeated: "there is more than one Host field"
        case .hostMalformed: "the Host field is not a host name or address with an optional port"
        case .contentLengthMalformed: "Content-Length is not a plain decimal number"
        case .contentLengthRepeated: "there is more than one Content-Length"
        case .contentLengthWithTransferEncoding: "Content-Length and Transfer-Encoding are both present"
        case .contentUnexpected: "a GET, HEAD or DELETE of HTTP/1.0 has content, or a CONNECT its length or its end"
        case .transferEncodingUnsupported: "Transfer-Encoding is not a single 'chunked', or the version is 1.0"
        case .chunkMalformed: "the chunked coding is broken"
        case .trailerTooLarge: "the trailer section is too large"
        case .trailerNamesFraming: "a trailer field is one of framing or routing"
        case .fieldRepeated: "a field that may occur once, such as Content-Type, occurs twice"
        case .connectionNamesField: "Connection names a field that must reach the recipient"
        case .connectionMalformed: "Connection is not a list of tokens"
        case .expectationUnknown: "Expect is not 100-continue"
        case .pseudoFieldUnknown: "a pseudo-header field is not one of such messages, or not of this method's"
        case .pseudoFieldRepeated: "a pseudo-header field occurs twice"
        case .pseudoFieldMissing: "a required pseudo-header field is missing"
        case .pseudoFieldLate: "a pseudo-header field is after a header field, or in trailers"
        case .schemeUnsupported: "the scheme is not https"
        case .connectUnsupported: "CONNECT is supported only for WebSockets, where they are allowed"
        case .fieldNameUpperCase: "a field name has an upper-case letter, which HTTP/2 forbids"
        case .fieldOfConnection: "a connection-specific field, which HTTP/2 forbids"
        case .contentLengthDisagrees: "the length of the content differs from Content-Length"
        case .trailersUnended: "fields after the content do not end the message"
        case .fieldsInTunnel: "header fields are in a tunnel"
        case .statusLineMalformed: "the status line is not HTTP/1.1 SP status, or :status is none"
        case .contentImpossible: "a response that cannot have content has or announces some"
        case .interimResponsesRepeated: "there are too many interim responses before the final one"
        case .headMissing: "content or the end of the response comes before its final head"
        case .protocolSwitched: "an HTTP/2 response has the status 101, which only HTTP/1.1 has"
        }
    }
}
