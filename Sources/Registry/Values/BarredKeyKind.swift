/// As what a key is barred.
public enum BarredKeyKind: String, CaseIterable, Sendable {
    /// The hardware key of a device that was revoked.
    case hardware
    /// An mTLS key whose binding has ended.
    case mTLS = "mtls"
}
