/// The wallet profile of enrolment: what it issues to wallets.
public struct WalletConfiguration: Equatable, ConfigurationSection {
    @Setting(required: ClientName.kind, "The client id of the wallet: `sub` of its attestations.")
    public var client: String
    @Setting(
        key: "key", required: .keyFile("a readable PEM file"), "The private key that signs attestations, on P-256.")
    public var keyPath: String
    /// Nil if attestations name their key by `kid` alone.
    @Setting(
        key: "certificate", .file("a readable PEM file"),
        "The certificate of the key and those above it, which attestations have in `x5c`.")
    public var certificatePath: String?
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(86_400)), unit: "since it was issued", default: "1h",
        "The lifetime of an attestation.")
    public var life: Duration
    /// Nil if none is served.
    @Setting(
        key: "federation_statement", .file("a readable file"),
        "The signed entity statement that is served, if it has not expired.")
    public var statementPath: String?

    static let section = Section("enrolment.wallet", of: Self.self)
}
