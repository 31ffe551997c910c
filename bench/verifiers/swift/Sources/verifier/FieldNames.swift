import HTTPTypes

extension HTTPField.Name {
    // What nginx tells about the request it asks for.
    static let originalMethod = known("X-Original-Method")
    static let originalAuthority = known("X-Original-Authority")
    static let originalTarget = known("X-Original-Target")
    static let originalContentLength = known("X-Original-Content-Length")
    static let clientCertificate = known("X-Client-Certificate")

    static let signatureInput = known("Signature-Input")
    static let signature = known("Signature")
    static let acceptSignature = known("Accept-Signature")
    static let attestDenial = known("Attest-Denial")

    private static func known(_ name: String) -> Self {
        guard let name = Self(name) else { preconditionFailure("\(name) is a token") }
        return name
    }
}
