internal import Cryptography
internal import Registry

/// The subject of an admission token: a person whose devices were admitted with it.
public struct SubjectName: Equatable, Sendable {
    /// The issuer: `iss`.
    public let issuer: String
    /// The subject: `sub`.
    public let subject: String

    /// Length limits in bytes. That of `subject` is from OpenID Connect Core section 2.
    private static let issuerLimit = 1024
    private static let subjectLimit = 255

    /// Creates a name.
    ///
    /// - Returns: nil if a part is empty or too long.
    public init?(issuer: String, subject: String) {
        guard (1...Self.issuerLimit).contains(issuer.utf8.count), (1...Self.subjectLimit).contains(subject.utf8.count)
        else { return nil }
        self.issuer = issuer
        self.subject = subject
    }

    init(json text: [UInt8]) throws(AdministrationFault) {
        let members = try JSONText.members(of: text, admitted: ["issuer", "subject"])
        guard let issuer = members["issuer"], let subject = members["subject"],
            let name = SubjectName(issuer: issuer, subject: subject)
        else {
            throw .badRequest("The members 'issuer' (1 to 1024 bytes) and 'subject' (1 to 255 bytes) are required.")
        }
        self = name
    }

    var json: [UInt8] { JSONText.encode(["issuer": issuer, "subject": subject]) }

    /// Returns the pseudonym in the registry.
    func fingerprint(_ subjects: SubjectPseudonyms) throws(DeviceAdministrationError) -> Fingerprint {
        do throws(CryptographyError) {
            let code = try subjects.pseudonym(ofSubject: Array(subject.utf8), issuer: issuer)
            guard let fingerprint = Fingerprint(code.bytes) else { preconditionFailure("a SHA-256 has 32 bytes") }
            return fingerprint
        } catch {
            throw .failed(error.description)
        }
    }
}

extension AdministrationEndpoint {
    /// Returns the endpoint that revokes a subject's devices. No log names the subject, because a log must not identify
    /// a person.
    static func revokeSubject(
        _ subjects: SubjectPseudonyms, performing perform: @escaping DeviceEndpoints.Perform,
        audit: @escaping (AdministrationAct) -> Void
    ) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/subjects/revoke", takesContent: true, act: "subject_revoke") {
            request, reply throws(AdministrationFault) in
            let name = try SubjectName(json: request.content)
            guard let fingerprint = try? name.fingerprint(subjects) else { throw .storeUnavailable }
            perform(.revokeSubject(fingerprint)) { result in
                switch result {
                case .success(.revoked(let devices)):
                    let numbers = devices.map { String($0.device.id.number) }.joined(separator: " ")
                    audit(
                        AdministrationAct(
                            "subject_revoke", "subject revoke: devices [\(numbers)]", target: numbers, by: request.peer)
                    )
                    let documents = devices.map { DeviceDocument($0.device) }
                    reply.send(AdministrationResponse(200, json: DevicePage(devices: documents, next: nil)))
                case .success:
                    audit(AdministrationAct("subject_revoke", "subject revoke", .storeUnavailable, by: request.peer))
                    reply.send(AdministrationResponse(.storeUnavailable))
                case .failure(let fault):
                    audit(AdministrationAct("subject_revoke", "subject revoke", fault, by: request.peer))
                    reply.send(AdministrationResponse(fault))
                }
            }
        }
    }
}
