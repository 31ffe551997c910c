import Foundation

@testable import GatewayConfiguration

/// Mistakes in the federation.
extension BrokenFile {
    private static let base =
        "  address: 127.0.0.1:8447\n  tls: { certificate: server.pem, key: server.key }\n"
        + "  url: https://localhost:8447\n  scopes: [profile]\n"

    /// A federation with one mistake, or more settings.
    private init(
        federating description: String, _ from: String, _ to: String, _ message: String, suggestion: String? = nil
    ) {
        let whole = from.isEmpty ? Self.base + to : Self.base.replacingOccurrences(of: from, with: to)
        self.init(
            enrolling: description, "enrolment:\n", "federation:\n\(whole)\nenrolment:\n", message,
            suggestion: suggestion)
    }

    static let federation = [
        BrokenFile(
            federating: "a federation without scopes", base,
            "  ▶address: 127.0.0.1:8447\n  tls: { certificate: server.pem, key: server.key }\n"
                + "  url: https://localhost:8447\n", "`scopes` is missing"),
        BrokenFile(
            federating: "the federation at the address of a listener", "127.0.0.1:8447", "▶127.0.0.1:8443",
            "127.0.0.1:8443 is a listener of the gateway's clients"),
        BrokenFile(
            federating: "the federation at the address of enrolment", "address: 127.0.0.1:8447",
            "address: ▶127.0.0.1:8444", "127.0.0.1:8444 is a listener of enrolment"),
        BrokenFile(
            federating: "a scope of two words", "[profile]", "[▶\"profile courses\"]", "is no word of a scope"),
        BrokenFile(
            federating: "assertions that are valid without end", "", "  assertions_without_exp: ▶1h\n",
            "is neither `refuse` nor 1m to 30m"),
        BrokenFile(
            federating: "proofs without certificates", "", "  require: ▶request-proof\n",
            "`require: request-proof` needs the client certificates of phones"),
        BrokenFile(
            federating: "certificates of services", "", "  clients: { authorities: [ca.pem], require: ▶always }\n",
            "services and their users have no client certificates"),
        BrokenFile(
            federating: "a version that cannot be compared", "",
            "  minimum_versions: [{ app: TEAMID1234.org.example.app, version: ▶one }]\n",
            "is not a bundle version that can be compared"),
    ]
}
