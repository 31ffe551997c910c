/// The client attestations that routes require, all of one attester.
public struct ClientAttestationsConfiguration: Equatable, ConfigurationSection {
    @Setting(key: "jwks", required: .file("a readable JSON file"), "The JWK Set with the attester's public keys.")
    public var keysPath: String
    /// The `aud` of proofs of possession. Challenges and metadata are on its host.
    @Setting(required: ServiceURL.kind, "The resource identifier of the services, as clients name it (RFC 9728).")
    public var resource: ServiceURL
    /// Nil for all that the attester names.
    @Setting(.distinct(ClientName.kind, minimum: 1), "The admitted client ids: `sub` of attestations.")
    public var clients: [String]?
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(2_592_000)), unit: "since it was issued", default: "1d",
        "The maximum age of an attestation.")
    public var maximumAge: Duration

    static let section = Section("client_attestations", of: Self.self)
}

/// A client id (RFC 6749 section 2.2) that is put into a header field.
enum ClientName {
    static var kind: Kind<String> {
        .text("1 to 255 printable characters without spaces", matching: "^[!-~]{1,255}$") {
            text throws(InvalidValue) in
            guard (1...255).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
                throw InvalidValue("\(Printable.quoted(text)) is not a client id")
            }
            return text
        }
    }
}

/// Rules between client attestations and the rest of the conf file.
enum ClientAttestationReferences {
    /// Refuses routes that require attestations of no attester.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(_ root: Item, _ reading: Reading) {
        guard root["client_attestations"] == nil else { return }
        for item in root["routes"]?.elements.compactMap({ $0["require"] }) ?? []
        where item.text == RouteConfiguration.Requirement.clientAttestation.rawValue {
            reading.refuse(
                item.place, "`require: client-attestation` needs the section `client_attestations`",
                expected: "a section `client_attestations`, with `jwks` and `resource`")
        }
    }
}
