public import RequestProof

#if canImport(CryptoKit)
    internal import CryptoKit
#else
    internal import Cryptography
#endif

/// The parts of a request that a proof covers. Send the request exactly like this: the proof does not cover what a
/// library adds or changes.
public struct AttestedRequest: Equatable, Sendable {
    /// A field line of the request.
    public struct Field: Equatable, Sendable {
        public let name: FieldComponent
        /// The value as sent. A proof can cover only printable ASCII.
        public let value: [UInt8]
    }

    /// The content as the proof describes it.
    public enum Content: Equatable, Sendable {
        /// No content, or empty content. There is no digest.
        case none
        /// These bytes, as sent. They are encoded if there is a Content-Encoding.
        case bytes([UInt8])
        /// Content of at least one byte that the caller hashed, such as an uploaded file: 32 bytes of SHA-256.
        case sha256([UInt8])
    }

    /// The method, case-sensitive.
    public let method: [UInt8]
    public let target: RequestTarget
    public let fields: [Field]
    /// The value of Content-Digest. Nil without content. With a value that differs from the content's, the proof is
    /// refused.
    public var contentDigest: [UInt8]?
    /// The value of Attest-Proof-Counter. Nil for App Attest, whose assertions contain the counter.
    var proofCounter: [UInt8]?

    /// Creates a request.
    ///
    /// - Parameter fields: All lines in order, except those that the HTTP library manages. `Authorization`,
    ///   `Content-Type` and `Content-Encoding` are always covered, and others if the gateway asks for them.
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

    /// The fields of a proof. Only this library writes them.
    private static let ownFields: Set = ["content-digest", "signature-input", "signature", "attest-proof-counter"]

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

    /// Returns the components that a proof of this request covers: the required ones, and those requested if the
    /// request has them.
    ///
    /// - Parameter asked: The components of `AcceptSignature`, which may come from the answer to another request.
    public func components(asked: [Component] = []) -> [Component] {
        var components = Coverage().components(for: traits)
        for component in asked where !components.contains(component) && has(component) { components.append(component) }
        return components
    }

    private var traits: RequestTraits {
        var traits: RequestTraits = contentDigest == nil ? [] : .content
        if proofCounter != nil { traits.insert(.proofCounter) }
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

    /// Returns the bytes that a proof signs.
    ///
    /// - Throws: `fieldAbsent` or `malformed` of `request`.
    public func signatureBase(_ builder: ProofBuilder) throws(ProofFault) -> [UInt8] {
        let parts = RequestParts(
            method: method.span, authority: target.authority.span, path: target.path.span, query: target.query.span)
        return try builder.signatureBase(of: parts) { name, value in
            let component = FieldComponent(name)
            // The caller has no lines with these names, as checked in the initializer.
            switch component?.description {
            case "content-digest": if let contentDigest { value.add(contentDigest.span) }
            case "attest-proof-counter": if let proofCounter { value.add(proofCounter.span) }
            default: break
            }
            for field in fields where component == field.name { value.add(field.value.span) }
        }
    }

    /// Returns the request with the counter of an Android device.
    public func stating(counter: UInt32) -> AttestedRequest {
        var request = self
        request.proofCounter = ProofCounter.fieldValue(counter)
        return request
    }
}

/// The reason why a request cannot have a proof. It is an error of the caller.
public enum RequestFault: Error, Equatable, Sendable, CaseIterable {
    /// The text is not a field name (RFC 9110 section 5.1).
    case fieldName
    /// The proof itself writes the field.
    case fieldReserved
    /// The digest of the content does not have 32 bytes.
    case digestLength
}

/// The target of a request, in the parts that a proof covers.
public struct RequestTarget: Equatable, Sendable {
    /// The authority: `host` or `host:port`.
    public var authority: [UInt8]
    /// The path, percent-encoded as sent. It is `/` if the URL has none.
    public var path: [UInt8]
    /// The query as sent, without its `?`. Empty if there is none.
    public var query: [UInt8]

    /// Parses a URL.
    ///
    /// - Parameter url: `https://authority[/path][?query][#fragment]`, percent-encoded, as `URL.absoluteString` is. The
    ///   fragment is ignored.
    /// - Returns: nil for another form, or if the URL has a user.
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

/// The hash function of a proof, for content and signature base.
enum ContentHash {
    /// Returns SHA-256, 32 bytes.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        #if canImport(CryptoKit)
            Array(SHA256.hash(data: bytes))
        #else
            Digest256.sha256(of: bytes.span).bytes
        #endif
    }
}
