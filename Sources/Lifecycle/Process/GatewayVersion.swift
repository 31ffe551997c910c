/// Which AttestGate this is.
public enum GatewayVersion {
    public static let text = "0.1.0"
}
