internal import COpenSSL

/// What an authority says of one server certificate (OCSP, RFC 6960): read, verified, and good, to be handed out beside the
/// certificate.
///
/// A plain value, which all workers share.
public struct StapledResponse: Equatable, Sendable {
    /// DER, as it goes to clients.
    public let encoding: [UInt8]
    /// The certificate's, in RFC 2253 form.
    public let subject: String
    /// In seconds since 1970, like `nextUpdate`.
    public let thisUpdate: Int64
    /// When there will be a later response at the latest.
    public let nextUpdate: Int64

    /// More than any response with the certificate of who signed it; each handshake copies it.
    public static let longest = 16 * 1024

    /// Whether the response is the latest there is.
    public func isFresh(at now: Int64) -> Bool { thisUpdate <= now && now < nextUpdate }

    /// Reads a response in DER, as `openssl ocsp -respout` writes it. Its age is no fault: `isFresh` is to be asked whenever it is
    /// handed out, for time passes.
    ///
    /// - Parameters:
    ///   - chain: the certificate that it is to be about, and among those above it the one that has issued it.
    ///   - now: in seconds since 1970.
    /// - Throws: unless a client that is shown it in its time would believe that the certificate is good.
    public init(
        der: [UInt8], for chain: [Certificate], at now: Int64, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard der.count <= Self.longest else {
            throw CryptographyError(doing: "read an OCSP response of more than \(Self.longest) bytes")
        }
        guard let leaf = chain.first else { throw CryptographyError(doing: "read an OCSP response for no certificate") }
        guard let issuer = chain.dropFirst().first(where: { $0.hasIssued(leaf) }) else {
            throw CryptographyError(
                doing: "verify the OCSP response: the certificate that issued \(leaf.subject), \(leaf.issuer), "
                    + "does not follow it in the certificate file")
        }
        let response = try DecodedOCSPResponse(der)
        let single = try response.single(about: leaf, issuedBy: issuer)
        guard let thisUpdate = single.thisUpdate, let nextUpdate = single.nextUpdate, thisUpdate < nextUpdate else {
            throw CryptographyError(doing: "staple the OCSP response: it has no validity period")
        }
        // A responder's certificate may end soon after the response: it is to be valid while that is.
        try response.verify(signedFor: issuer, at: min(max(now, thisUpdate), nextUpdate - 1), library)
        switch single.state {
        case .good: break
        case .revoked:
            throw CryptographyError(doing: "staple the OCSP response: it says that \(leaf.subject) is revoked")
        case .unknown:
            throw CryptographyError(doing: "staple the OCSP response: its authority does not know \(leaf.subject)")
        }
        encoding = der
        subject = leaf.subject
        self.thisUpdate = thisUpdate
        self.nextUpdate = nextUpdate
    }
}

extension Certificate {
    /// Whether this certificate's key has signed the other one, and its name stands there.
    func hasIssued(_ other: Certificate) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_check_issued(pointer, other.pointer) == X509_V_OK
            && X509_verify(other.pointer, X509_get0_pubkey(pointer)) == 1
    }

    /// Whether it says that clients are to refuse it without a stapled response: the TLS feature status_request, 5 (RFC 7633,
    /// RFC 6066 section 8).
    public var demandsStaple: Bool {
        // A sequence of small integers, so each in three octets.
        extensionValues("1.3.6.1.5.5.7.1.24").contains { value in
            value.first == 0x30
                && stride(from: 2, to: value.count - 2, by: 3).contains { value[$0...].starts(with: [2, 1, 5]) }
        }
    }
}
