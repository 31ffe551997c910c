internal import Bytes
package import Cryptography
internal import EventLoop
internal import HTTP
internal import Registry
package import TLS
internal import Vocabulary

/// The clients of a listener whose peers are proxies that terminate the clients' TLS. Each request states its client's
/// certificate in a field, which the proxy writes in place of what the client sent.
///
/// The proxy vouches that the client has the certificate's key. The certificate itself is judged here, as a handshake
/// does, and what was verified is remembered by the bytes of the field. A request finds its client by a comparison with
/// that of the request before, else by a look-up; time, lists and pins are checked for every request.
///
/// One per worker, listener and generation.
package final class ForwardedClients {
    /// The fields that the proxy writes.
    package struct Fields: Sendable {
        let format: ForwardedCertificateFormat
        /// Names in lower case.
        let certificate: [UInt8]
        /// Empty if the format has none.
        let chain: [UInt8]
        /// The field with the client's address; nil if there is none, as behind a proxy that sends PROXY headers.
        let address: ClientAddressField?

        /// - Parameters:
        ///   - certificate: The name of the field, in lower case.
        ///   - chain: That of the field with the certificates above it; nil if the format has none.
        package init(
            _ format: ForwardedCertificateFormat, certificate: String, chain: String?, address: ClientAddressField?
        ) {
            self.format = format
            self.certificate = Array(certificate.utf8)
            self.chain = Array((chain ?? "").utf8)
            self.address = address
        }
    }

    private let fields: Fields
    private let trust: ClientTrust
    private let library: LibraryContext
    /// By the bytes of the field, and of that with the chain. Only clients whose certificates were verified.
    private var known = ClockCache<[UInt8], Entry>(limit: limit)
    /// The rules of the configuration loaded since: a client that they do not admit is refused.
    private var successor: ClientAdmission?

    private final class Entry {
        let evidence: [UInt8]
        let client: ClientMemory
        let identity: ClientIdentity

        init(_ evidence: [UInt8], _ client: ClientMemory, _ identity: ClientIdentity) {
            self.evidence = evidence
            self.client = client
            self.identity = identity
        }
    }

    /// Those of the request before.
    private var last: Entry?
    private var lastOrigin: ClientOrigin?
    /// The field with its address.
    private var lastAddress: [UInt8] = []

    /// The maximum length of a field, as design and documentation state.
    private static let longest = 16_384
    /// Longer ones are verified each time, so that the table has a bound.
    private static let longestKnown = 4096
    /// The maximum number of clients: 8 MiB, if so many come, each with 2 KiB.
    private static let limit = 4096

    /// - Parameter trust: What the certificates are judged by.
    package init(_ fields: Fields, trust: ClientTrust, library: LibraryContext) {
        self.fields = fields
        self.trust = trust
        self.library = library
    }

    /// Whether a request needs no certificate.
    var isOptional: Bool { trust.admission.isOptional }

    /// Judges clients by the rules of another configuration, too.
    package func judge(also admission: ClientAdmission) {
        successor = admission
        known = ClockCache(limit: Self.limit)
        last = nil
    }

    /// Returns the reason why a client must end what it has open; nil if it may continue.
    func objection(to identity: ClientIdentity) -> ClientAdmission.KeyRejection? {
        successor?.objection(toKeeping: identity)
    }

    /// Returns the client of a request.
    ///
    /// - Parameter origin: Where it comes from.
    /// - Throws: The refusal of a client without a certificate, or of a certificate that is not accepted.
    func client(
        of head: RequestHead, _ bytes: Span<UInt8>, at origin: ClientOrigin
    ) throws(Refusal) -> ClientMemory {
        let (value, chain) = try values(in: head, bytes)
        guard !value.isEmpty else {
            guard isOptional else { throw Refusal(.certificateAbsent, "the proxy stated no certificate") }
            return ClientMemory(nil, at: origin)
        }
        let entry = try entry(value, chain, bytes, at: origin)
        if let objection = trust.objection(to: entry.identity) ?? objection(to: entry.identity) {
            throw Refusal(Denial(objection.kind), objection.reason)
        }
        return entry.client
    }

    /// Returns the ranges of the certificate and of the chain. Empty if absent; some proxies send an empty field where there
    /// is no certificate.
    ///
    /// - Throws: The refusal if a field occurs twice, or is too long.
    private func values(
        in head: RequestHead, _ bytes: Span<UInt8>
    ) throws(Refusal) -> (certificate: ByteRange, chain: ByteRange) {
        var (certificate, chain): (ByteRange?, ByteRange?) = (nil, nil)
        for index in head.fields.indices {
            let field = head.fields[index]
            let (name, value) = (field.nameRange, field.valueRange)
            if name.count == fields.certificate.count, name.of(bytes).equals(lowercase: fields.certificate) {
                guard certificate == nil else { throw refusal("it occurs twice") }
                certificate = value
            } else if name.count == fields.chain.count, name.of(bytes).equals(lowercase: fields.chain) {
                guard chain == nil else { throw refusal("the chain occurs twice") }
                chain = value
            }
        }
        guard (certificate?.count ?? 0) + (chain?.count ?? 0) <= Self.longest else {
            throw refusal("it is longer than 16 KiB")
        }
        return (certificate ?? .empty, chain ?? .empty)
    }

    private func refusal(_ reason: String) -> Refusal {
        Refusal(.certificateInvalid, "\(String(decoding: fields.certificate, as: UTF8.self)): \(reason)")
    }

    private func entry(
        _ value: ByteRange, _ chain: ByteRange, _ bytes: Span<UInt8>, at origin: ClientOrigin
    ) throws(Refusal) -> Entry {
        if let last, Self.isEvidence(last.evidence, value, chain, bytes) { return last }
        var evidence = Array(copying: value.of(bytes))
        // No value contains a zero.
        if !chain.isEmpty { evidence += [0] + Array(copying: chain.of(bytes)) }
        let entry: Entry
        if let known = known.use(evidence) {
            entry = known
        } else {
            entry = try verified(value, chain, bytes, evidence, at: origin)
        }
        last = entry
        return entry
    }

    private static func isEvidence(
        _ evidence: [UInt8], _ value: ByteRange, _ chain: ByteRange, _ bytes: Span<UInt8>
    ) -> Bool {
        let count = value.count
        let evidence = evidence.span
        guard evidence.count == count + (chain.isEmpty ? 0 : 1 + chain.count),
            evidence.extracting(..<count).isEqual(to: value.of(bytes))
        else { return false }
        return chain.isEmpty || evidence.extracting((count + 1)...).isEqual(to: chain.of(bytes))
    }

    /// Verifies a client's certificate and those above it.
    package func verify(
        _ certificates: [Certificate]
    ) throws(CryptographyError) -> Result<ClientIdentity, ClientCertificateFault> {
        try trust.verify(certificates)
    }

    private func verified(
        _ value: ByteRange, _ chain: ByteRange, _ bytes: Span<UInt8>, _ evidence: [UInt8], at origin: ClientOrigin
    ) throws(Refusal) -> Entry {
        guard let stated = ForwardedCertificates(value.of(bytes), chain: chain.of(bytes), fields.format) else {
            throw refusal("it is not one certificate in the listener's `format`")
        }
        let verdict: Result<ClientIdentity, ClientCertificateFault>
        do throws(CryptographyError) {
            let certificates: [Certificate]
            switch stated {
            case .der(let encodings):
                certificates = try encodings.map { encoding throws(CryptographyError) in
                    try Certificate(der: encoding.span, library)
                }
            case .pem(let text): certificates = try Certificate.all(inPEM: text, library)
            }
            verdict = try verify(certificates)
        } catch {
            throw refusal(error.description)
        }
        switch verdict {
        case .failure(let fault):
            throw Refusal(Denial(fault.kind), RefusalDetail.of(.handshake(.clientCertificate(fault)), nil))
        case .success(let identity):
            let entry = Entry(evidence, ClientMemory(identity, at: origin), identity)
            if evidence.count <= Self.longestKnown { known.insert(evidence, entry) }
            return entry
        }
    }

    /// The field with the clients' addresses; nil if there is none.
    var address: ClientAddressField? { fields.address }

    /// Returns the origin of a request.
    ///
    /// - Parameter proxy: That of the connection, if the request has no address that can be read. With PROXY headers it is
    ///   the client's.
    func origin(
        of head: RequestHead, _ bytes: Span<UInt8>, at proxy: ClientOrigin, _ gateway: GatewayApplication
    ) -> ClientOrigin {
        guard let field = fields.address, let range = field.range(in: head, bytes) else { return proxy }
        let last = lastAddress
        if let lastOrigin, last.span.isEqual(to: range.of(bytes)) { return lastOrigin }
        guard let address = field.address(in: range.of(bytes)) else { return proxy }
        lastAddress = Array(copying: range.of(bytes))
        if let lastOrigin, lastOrigin.peer == address { return lastOrigin }
        let origin = ClientOrigin(address, gateway)
        lastOrigin = origin
        return origin
    }
}
