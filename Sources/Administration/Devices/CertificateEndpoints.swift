internal import Encoding
internal import HTTP
internal import Registry
internal import Vocabulary

/// The endpoints for the content of a revocation list. The owner of the CA's key signs it.
enum CertificateEndpoints {
    static func all(
        performing perform: @escaping DeviceEndpoints.Perform, audit: @escaping (AdministrationAct) -> Void
    ) -> [AdministrationEndpoint] {
        [
            AdministrationEndpoint(.get, "/certificates/revoked", query: ["after"]) {
                request, reply throws(AdministrationFault) in
                let after = try after(request.query)
                perform(.listRevokedCertificates(after: after, limit: RevokedCertificatesDocument.pageSize)) { result in
                    switch result {
                    case .success(.revokedCertificates(let page)):
                        reply.send(AdministrationResponse(json: RevokedCertificatesDocument(page)))
                    case .success: reply.send(AdministrationResponse(.storeUnavailable))
                    case .failure(let fault): reply.send(AdministrationResponse(fault))
                    }
                }
            },
            AdministrationEndpoint(.post, "/certificates/revocation-list-number", act: "revocation_list_begin") {
                request, reply in
                func fail(_ fault: AdministrationFault) {
                    audit(AdministrationAct("revocation_list_begin", "revocation list begin", fault, by: request.peer))
                    reply.send(AdministrationResponse(fault))
                }
                perform(.drawRevocationListNumber) { result in
                    switch result {
                    case .success(.revocationListNumber(let number)):
                        audit(
                            AdministrationAct(
                                "revocation_list_begin", "revocation list \(number) begun", target: String(number),
                                by: request.peer))
                        reply.send(AdministrationResponse(json: ["number": number]))
                    case .success: fail(.storeUnavailable)
                    case .failure(let fault): fail(fault)
                    }
                }
            },
        ]
    }

    private static func after(_ query: [String: String]) throws(AdministrationFault) -> CertificateSerial? {
        guard let text = query["after"] else { return nil }
        guard let serial = CertificateSerial(text) else {
            throw .badRequest("'after' must be a serial number in upper-case hexadecimal.")
        }
        return serial
    }
}

/// A page of revoked certificates as JSON.
struct RevokedCertificatesDocument: Codable, Equatable {
    let certificates: [Entry]
    /// The serial number after which the next page begins. Null for the last page.
    let next: String?

    struct Entry: Codable, Equatable {
        /// The serial number in upper-case hexadecimal.
        let serial: String
        /// The time in RFC 3339, UTC.
        let revokedAt: String
        /// The reason with its name in RFC 5280 section 5.3.1.
        let reason: String

        private enum CodingKeys: String, CodingKey {
            case serial, reason
            case revokedAt = "revoked_at"
        }
    }

    /// The number of certificates, revoked or not, examined for a page. The store's thread examines them between two
    /// commits.
    static let pageSize = 1_000

    init(_ page: RevokedCertificatePage) {
        certificates = page.certificates.map {
            Entry(
                serial: $0.serial.description, revokedAt: InternetTime.text(of: $0.revokedAt),
                reason: $0.reason.rawValue)
        }
        next = page.next?.description
    }

    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(certificates, forKey: .certificates)
        // The synthesized encoder would omit null.
        try members.encode(next, forKey: .next)
    }

    /// Returns the content of the page.
    ///
    /// - Returns: nil if the form is not a gateway's.
    func read() -> (certificates: [RevokedCertificate], next: CertificateSerial?)? {
        var read: [RevokedCertificate] = []
        for entry in certificates {
            guard let serial = CertificateSerial(entry.serial),
                let time = InternetTime(entry.revokedAt),
                let reason = RevocationReason(rawValue: entry.reason)
            else { return nil }
            read.append(
                RevokedCertificate(serial: serial, revokedAt: time.seconds, reason: reason))
        }
        let next = next.map { CertificateSerial($0) }
        // An unreadable position would lose the following pages.
        if let next, next == nil { return nil }
        return (read, next ?? nil)
    }
}
