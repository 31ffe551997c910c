public import RequestProof

#if canImport(CryptoKit)
    internal import CryptoKit
#else
    internal import Cryptography
#endif

/// A request, as far as a proof covers it. It must be sent exactly so: the proof does not cover what a library adds or
/// rewrites on the way out.
public struct AttestedRequest: Equatable, Sendable {
    /// A field line of the request.
    public struct Field: Equatable, Sendable {
        public let name: FieldComponent
        /// As sent. Nothing outside of printable ASCII can be proven.
        public let value: [UInt8]
    }

    /// What the proof says of the content.
    public enum Content: Equatable, Sendable {
        /// None, or none but empty: there is nothing to digest.
        case none
        /// These bytes, as sent (encoded, if there is a Content-Encoding).
        case bytes([UInt8])
        /// Content of at least one byte that the caller has hashed itself, an upload from a file say: 32 bytes of SHA-256.
        case sha256([UInt8])
    }

    /// Case-sensitive.
    public let method: [UInt8]
    public let target: RequestTarget
    public let fields: [Field]
    /// The value of Content-Digest; nil without content. Another value than the content's makes a proof that is refused.
    public var contentDigest: [UInt8]?

    /// - Parameter fields: all lines that the request has beyond what the HTTP library manages, in order. `Authorization`,
    ///   `Content-Type` and `Content-Encoding` are covered wherever they are here, others as the gateway asks for them.
    public init(
        method: String, target: RequestTarget, fields: [(name: String, value: String)] = [], content: Content = .none
    ) throws(RequestFault) {
        self.method = Array(method.utf8)
        self.target = target
        self.fields = try fields.map { (name, value) throws(RequestFault) in
            guard let component = FieldComponent(name) else { throw .fieldName }
            guard !Self.ownFields.contains(component.description) else { throw .fieldReserved }
            return Field(name: component, value: Array(value.utf8))
        }
        contentDigest = try Self.digest(of: content)
    }

    /// The fields that a proof consists of: nobody else writes them.
    private static let ownFields: Set = ["content-digest", "signature-input", "signature"]

    private static func digest(of content: Content) throws(RequestFault) -> [UInt8]? {
        switch content {
        case .none: return nil
        case .bytes(let bytes): return bytes.isEmpty ? nil : try fieldValue(ContentHash.sha256(bytes))
        case .sha256(let digest): return try fieldValue(digest)
        }
    }

    private static func fieldValue(_ digest: [UInt8]) throws(RequestFault) -> [UInt8] {
        guard let value = ContentDigest.fieldValue(.sha256, digest.span) else { throw .digestLength }
        return value
    }

    /// What a proof of this request covers: what every proof must, and what was asked for as far as the request has it.
    ///
    /// - Parameter asked: the components of `AcceptSignature`; it may have come with the answer to another request.
    public func components(asked: [Component] = []) -> [Component] {
        var components = Coverage().components(for: traits)
        for component in asked where !components.contains(component) && has(component) { components.append(component) }
        return components
    }

    private var traits: RequestTraits {
        var traits: RequestTraits = contentDigest == nil ? [] : .content
        for field in fields {
            switch field.name.description {
            case "authorization": traits.insert(.authorization)
            case "content-type": traits.insert(.contentType)
            case "content-encoding": traits.insert(.contentEncoding)
            default: break
            }
        }
        return traits
    }

    private func has(_ component: Component) -> Bool {
        guard case .field(let name) = component else { return true }
        return fields.contains { $0.name == name }
    }

    /// The bytes that a proof signs.
    ///
    /// - Throws: `fieldAbsent` or `malformed`, of `request`.
    public func signatureBase(_ builder: ProofBuilder) throws(ProofFault) -> [UInt8] {
        let parts = RequestParts(
            method: method.span, authority: target.authority.span, path: target.path.span, query: target.query.span)
        return try builder.signatureBase(of: parts) { name, value in
            // Checked above: the caller has no line of this name.
            if let contentDigest, isContentDigest(name) { value.add(contentDigest.span) }
            for field in fields where FieldComponent(name) == field.name { value.add(field.value.span) }
        }
    }

    private func isContentDigest(_ name: Span<UInt8>) -> Bool {
        FieldComponent(name)?.description == "content-digest"
    }
}

/// Why no proof can be made of a request: the caller's fault.
public enum RequestFault: Error, Equatable, Sendable, CaseIterable {
    /// Not a field name (RFC 9110 section 5.1).
    case fieldName
    /// A field that the proof itself writes.
    case fieldReserved
    /// A digest of the content that has not 32 bytes.
    case digestLength
}

/// Where a request goes, in the parts that a proof covers.
public struct RequestTarget: Equatable, Sendable {
    /// `host` or `host:port`.
    public var authority: [UInt8]
    /// Percent-encoded as sent; `/` if the URL has none.
    public var path: [UInt8]
    /// As sent, without its `?`; empty if there is none.
    public var query: [UInt8]

    /// - Parameter url: `https://authority[/path][?query][#fragment]`, percent-encoded; `URL.absoluteString` is. The
    ///   fragment, which is never sent, is left out. Nil if it is of another form, or names a user.
    public init?(url: String) {
        let bytes = Array(url.utf8)
        guard bytes.count > Self.scheme.count, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7f }),
            zip(bytes, Self.scheme).allSatisfy({ Self.lowercased($0) == $1 })
        else { return nil }
        let rest = bytes[Self.scheme.count...].prefix { $0 != UInt8(ascii: "#") }
        let authority = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        guard !authority.isEmpty, !authority.contains(UInt8(ascii: "@")) else { return nil }
        let path = rest[authority.endIndex...].prefix { $0 != UInt8(ascii: "?") }
        self.authority = Array(authority)
        self.path = path.isEmpty ? [UInt8(ascii: "/")] : Array(path)
        query = Array(rest[path.endIndex...].dropFirst())
    }

    private static let scheme = Array("https://".utf8)

    private static func lowercased(_ byte: UInt8) -> UInt8 { byte &- 0x41 < 26 ? byte | 0x20 : byte }
}

/// The one hash of a proof: of the content, and of the signature base.
enum ContentHash {
    /// - Returns: 32 bytes.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        #if canImport(CryptoKit)
            Array(SHA256.hash(data: bytes))
        #else
            Digest256.sha256(of: bytes.span).bytes
        #endif
    }
}
