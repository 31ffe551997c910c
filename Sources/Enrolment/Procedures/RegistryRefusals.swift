internal import Cryptography
internal import Registry

/// What the registry refuses by, in the words of enrolment.
extension EnrolmentFault {
    init(_ refusal: InitializationRefusal) {
        self =
            switch refusal {
            case .epochChanged, .nonceExpired, .nonceUsed: .nonceRefused
            case .keyRegistered: .instanceKnown
            case .deviceRevoked: .instanceRevoked
            }
    }

    init(_ refusal: KeyBindingRefusal) {
        self =
            switch refusal {
            case .epochChanged, .nonceExpired, .nonceUsed: .nonceRefused
            case .deviceUnknown: .instanceUnknown
            case .deviceRevoked: .instanceRevoked
            case .extensionWithheld: .extensionWithheld
            case .serialUsed: .checkFailed(CryptographyError(doing: "generate an unused serial number"))
            case .keyBound, .keyMismatch: .keyRefused
            case .tooManyKeys: .keysExhausted
            case .awaitingApproval: .approvalPending
            case .admissionRequired: .memberMissing(.admissionToken)
            case .tokenExpired: .admission(.time)
            case .tokenUsed: .admission(.used)
            case .subjectRevoked, .subjectMismatch: .admission(.subject)
            case .counterReplayed: .counterSpent
            case .counterLate: .counterLate
            }
    }

    init(_ error: StoreError) {
        self =
            switch error {
            case .deviceUnknown: .instanceUnknown
            case .deviceRevoked: .instanceRevoked
            // No command of enrolment is answered by the others.
            case .keyRegistered, .keyBound, .devicePending, .bindingUnknown, .unavailable: .storeUnavailable
            }
    }
}
