/// What a request must show before it is forwarded; each level demands what the one before does.
public enum Requirement: Sendable {
    /// A valid client certificate.
    case certificate
    /// That its key is bound to an active device, of an app that the route admits.
    case device
    /// That the device's app made a proof for exactly this request, and that it is used for the first time.
    case requestProof
}
