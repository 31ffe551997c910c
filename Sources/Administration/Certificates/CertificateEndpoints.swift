internal import HTTP
internal import Registry
internal import Vocabulary

/// What a revocation list is made of. Signing it is for those who have the CA's key.
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
