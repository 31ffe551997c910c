@testable import GatewayConfiguration

/// The client certificates that are accepted.
extension BrokenFile {
    static let clients = [
        BrokenFile(
            "HTTP/2 in the clear",
            "    tls:\n      certificate: server.pem\n",
            "    protocols: [▶h2c]\n    tls:\n      certificate: server.pem\n",
            "HTTP/2 in the clear (`h2c`) is not supported for clients",
            suggestion: "h2"),
        BrokenFile(
            "a protocol that nobody knows",
            "    tls:\n      certificate: server.pem\n",
            "    protocols: [h2, ▶http/1]\n    tls:\n      certificate: server.pem\n",
            "`http/1` is not a known value",
            suggestion: "http/1.1"),
        BrokenFile(
            "no kind of certificate",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: ▶[]\n",
            "the list is empty"),
        BrokenFile(
            "an unknown kind",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: [issued, ▶register]\n",
            "`register` is not a known value",
            suggestion: "registered"),
        BrokenFile(
            "a kind twice",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: [issued, ▶issued]\n",
            "`issued` is listed twice"),
        BrokenFile(
            attested: "issued certificates, and nobody who issues them",
            "      authorities: [ca.pem]\n",
            "      ▶accept: [issued, registered]\n",
            "`authorities` is missing"),
        BrokenFile(
            attested: "authorities whose certificates are not taken",
            "authorities: [ca.pem]",
            "accept: [registered]\n      authorities: ▶[ca.pem]",
            "`authorities` has no effect without `issued` in `accept`"),
        BrokenFile(
            "registered devices, and no registry that knows them",
            "authorities: [ca.pem]",
            "authorities: [ca.pem]\n      accept: [issued, ▶registered]",
            "`registered` needs the sections `registry` and `apps`"),
        BrokenFile(
            "a policy for revocation lists that are not there",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      crl_policy: ▶require-fresh\n",
            "there are no revocation lists"),
        BrokenFile(
            "revocation lists that nobody reads",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      crls: [ca.crl]\n      crl_policy: ▶none\n",
            "`none` would ignore `crls`"),
        BrokenFile(
            "an unknown policy for revocation lists",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      crls: [ca.crl]\n      crl_policy: ▶require_fresh\n",
            "`require_fresh` is not a known value",
            suggestion: "require-fresh"),
        BrokenFile(
            attested: "revocation lists of nobody",
            "      authorities: [ca.pem]\n",
            "      accept: [registered]\n      crls: ▶[ca.crl]\n",
            "`crls` has no effect without `issued` in `accept`"),
        BrokenFile(
            "an empty list of pins, which would let nobody in",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      pins: ▶[]\n",
            "the list is empty"),
        BrokenFile(
            "a pin in another spelling of its base64",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      pins: [▶47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=]\n",
            "is not a key id"),
        BrokenFile(
            "a pin in hexadecimal",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      pins: [▶e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934c]\n",
            "is not a key id"),
    ]
}
