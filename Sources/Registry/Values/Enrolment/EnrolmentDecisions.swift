// What every store decides alike of what it has found.

extension InstanceRegistration {
    /// The phone cannot attest its key a second time, so a lost answer must be had by the same attestation.
    ///
    /// - Parameter known: the device of its hardware key.
    func repetition(by known: DeviceDetails) -> InitializationVerdict {
        guard known.device.state != .revoked else { return .refused(.deviceRevoked) }
        guard known.bindings.isEmpty, known.device.identity == identity,
            known.attestation?.digest == attestation.digest
        else { return .refused(.keyRegistered) }
        return .repeated(known)
    }
}

extension BindingRequest {
    /// Keys that a device may bind in its life: at one a month, for 21 years. Rows of bindings stay for ever, and all of a
    /// device's are read for each question about it: without an end one phone could make them as slow as it likes.
    static let keyLimit = 256

    /// Why the device may not bind the key, as far as neither time nor admission say.
    ///
    /// - Parameters:
    ///   - details: of the device.
    ///   - isBound: whether the key is or was bound, to whichever device.
    ///   - isIssued: whether there is a certificate of the number.
    func refusal(by details: DeviceDetails, isBound: Bool, isIssued: Bool) -> KeyBindingRefusal? {
        guard details.device.state != .revoked else { return .deviceRevoked }
        if isBound {
            // One that is to end has a successor, and does not come back in its place.
            guard let own = details.bindings.first(where: { $0.key == key }), own.isActive, own.endsAt == nil
            else { return .keyBound }
        } else {
            guard details.bindings.count < Self.keyLimit else { return .tooManyKeys }
        }
        guard shown.isSuperset(of: details.device.shown) else { return .extensionWithheld }
        if isIssued { return .serialUsed }
        if details.bindings.isEmpty, let attested = details.attestation?.certificateKey, attested != key {
            return .keyMismatch
        }
        return nil
    }
}
