internal import Attestation
internal import Registry
internal import RequestProof
internal import Vocabulary

// The errors of the proof's modules, and the registry's verdicts, mapped to the denial table. The switches are exhaustive:
// a new error does not compile until somebody has decided what it means to a client.

extension Refusal {
    /// - Parameter input: of the proof, if it could be parsed: knows the components' names.
    init(_ fault: ProofFault, _ input: SignatureInput?) {
        switch fault {
        case .missing: self.init(.proofRequired, fault.description)
        case .malformed: self.init(.proofMalformed, fault.description)
        case .incomplete(let component):
            self.init(.proofIncomplete, fault.description, component: component.description)
        case .fieldAbsent(let place):
            self.init(
                .proofIncomplete, fault.description, component: input?.componentNames[place].description)
        }
    }

    init(_ fault: AssertionFault) {
        let reason = String(describing: fault.reason)
        switch fault {
        case .checkFailed(let error): self.init(.internalError, error.description)
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData:
            self.init(.proofMalformed, reason)
        case .rpIDMismatch, .counterZero, .signatureInvalid: self.init(.proofInvalid, reason)
        }
    }

    /// - Parameter category: that the assertion names, if any. What it says of the version is not repeated: it is text.
    init(_ fault: ExtensionFault, _ category: ValidationCategory?) {
        switch (fault, category) {
        case (.validationCategory(.notAdmitted), let category?):
            self.init(.appRefused, "\(fault.reason): \(category.rawValue)")
        case (.validationCategory, _), (.bundleVersion, _): self.init(.appRefused, fault.reason)
        }
    }

    /// Another request of the device, at the same time, has shown more than this one.
    private static var extensionWithheld: Refusal {
        Refusal(.appRefused, "an extension is absent that the same key has shown before")
    }

    /// - Parameter counter: that was not accepted, or was.
    init?(_ acceptance: CounterAcceptance, of counter: UInt32) {
        switch acceptance {
        case .pending: return nil
        case .replayed: self.init(.counterReplayed)
        case .late(let highest): self = .late(counter, highest)
        case .deviceRevoked: self.init(Denial.deviceRevoked)
        case .extensionWithheld: self = .extensionWithheld
        case .storeUnavailable: self.init(.storeUnavailable, "the registry accepts no counters")
        }
    }

    /// How large a window would have to be. For the log alone: how often a device is used is not everybody's business.
    private static func late(_ counter: UInt32, _ highest: UInt32) -> Refusal {
        Refusal(.counterLate, "\(Int64(highest) - Int64(counter)) behind the highest, \(highest)")
    }

    /// - Parameter counter: what became of it.
    /// - Returns: nil for the one outcome that lets a request through.
    init?(_ outcome: CounterOutcome, of counter: UInt32) {
        switch outcome {
        case .committed: return nil
        case .replayed: self.init(.counterReplayed)
        // Another gateway has moved it on, or nothing was in memory.
        case .late(let highest): self = .late(counter, highest)
        case .deviceRevoked: self.init(Denial.deviceRevoked)
        case .bindingEnded: self.init(.deviceMismatch, "the binding of the certificate's key has ended")
        case .extensionWithheld: self = .extensionWithheld
        case .unknown: self.init(.deviceUnknown)
        case .epochChanged: self.init(.challengeRequired, "the store's epoch has changed")
        case .storeUnavailable: self.init(.storeUnavailable, "the counter could not be committed; it stays spent")
        }
    }
}
