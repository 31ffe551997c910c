/// What a listener offers of TLS, by the name of one of Mozilla's recommendations.
public enum TLSPolicyName: String, CaseIterable, Sendable {
    /// TLS 1.3.
    case modern
    /// TLS 1.2 and 1.3.
    case intermediate
}

extension TLSPolicyName {
    static let key = Key(
        "policy", .choice as Kind<TLSPolicyName>, whenMissing: .means("modern"),
        "The TLS policy; intermediate adds TLS 1.2, which sends the client's certificate unencrypted.")
    /// What said the same before there were policies.
    static let former = ["minimum_version": key.setting.name]
}
