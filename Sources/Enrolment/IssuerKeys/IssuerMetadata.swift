internal import Attestation
package import Encoding
package import HTTP

/// The metadata of an OpenID Connect provider (OpenID Connect Discovery 1.0 section 3).
package enum IssuerMetadata {
    /// The reason why metadata is not used.
    package enum Fault: Error, Equatable {
        case json(JSONFault)
        /// It names another issuer, which could replace this one's keys (section 4.3).
        case issuer
        /// `jwks_uri` is missing or no https URL with a path.
        case location

        package var reason: String {
            switch self {
            case .json(let fault): "\(fault.reason)"
            case .issuer: "the metadata is of another issuer"
            case .location: "jwks_uri of the metadata is not an https URL"
            }
        }
    }

    /// Parses metadata.
    ///
    /// - Parameter issuer: The required `issuer`, compared byte by byte.
    /// - Returns: the place of the JWK Set.
    package static func location(in text: [UInt8], issuer: String) throws(Fault) -> SecureURL {
        let metadata: JSONObject
        do throws(JSONFault) {
            metadata = try JSONReader.object(in: text, longest: JWKSet.lengthLimit, most: 512)
        } catch {
            throw .json(error)
        }
        guard metadata["issuer"]?.spells(issuer) == true else { throw .issuer }
        guard let uri = metadata["jwks_uri"]?.text, let url = SecureURL(String(decoding: uri, as: UTF8.self)),
            !url.rest.isEmpty
        else { throw .location }
        return url
    }
}
