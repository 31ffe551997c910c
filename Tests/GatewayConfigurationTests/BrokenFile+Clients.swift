@testable import GatewayConfiguration

/// Which certificates clients must present.
extension BrokenFile {
    static let clients = [
        BrokenFile(
            "no kind of certificate",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: ▶[]\n",
            "the list is empty"),
        BrokenFile(
            "an unknown kind",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: [issued, ▶register]\n",
            "`register` is not known here",
            suggestion: "registered"),
        BrokenFile(
            "a kind twice",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: [issued, ▶issued]\n",
            "`issued` stands in this list twice"),
        BrokenFile(
            attested: "issued certificates, and nobody who issues them",
            "      authorities: [ca.pem]\n",
            "      ▶accept: [issued, registered]\n",
            "`authorities` is missing"),
        BrokenFile(
            attested: "authorities whose certificates are not taken",
            "authorities: [ca.pem]",
            "accept: [registered]\n      authorities: ▶[ca.pem]",
            "`authorities` means nothing where `accept` lacks `issued`"),
        BrokenFile(
            "registered devices, and no registry that knows them",
            "authorities: [ca.pem]",
            "authorities: [ca.pem]\n      accept: [issued, ▶registered]",
            "`registered` needs the sections `registry` and `apps`"),
    ]
}
