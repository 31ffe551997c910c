import Cryptography
import DeviceSimulator
import TrustClient
import Vocabulary

/// A phone whose app may end at any moment: what is left is its directory.
struct TestPhone {
    /// How a run of the app ended.
    enum Ending: Equatable {
        case finished(EnrolledCertificate)
        case failed(EnrolmentFailure)
        /// The app was killed, or no answer came.
        case cutOff
    }

    /// Where the app is killed.
    enum Cut: Equatable {
        /// Before the request is sent.
        case before(EnrolmentRequest.Endpoint)
        /// After the request has arrived: its answer is lost.
        case after(EnrolmentRequest.Endpoint)
        case afterAttesting
    }

    let device: DeviceDirectory
    let authority: String
    let library: LibraryContext
    var assertionForm = AssertionForm.iOS14
    var clientDataForm = TrustClient.ClientDataForm.nonceAndTag
    /// Seconds that its clock is ahead.
    var clockError: Int64 = 0

    var attestor: SimulatedAttestor { SimulatedAttestor(device, authority: authority, form: assertionForm) }

    /// One run of the app.
    func enrol(
        _ service: TestService, cut: Cut? = nil, admissionToken: (([UInt8]) throws -> String)? = nil
    ) throws -> Ending {
        let key = try device.keyToBind()
        let record = try device.enrolmentRecord() ?? EnrolmentRecord(service: TestService.service)
        var exchange = EnrolmentExchange(
            record, point: key.point, form: clientDataForm, admissionToken: try admissionToken?(key.point))
        var action = exchange.begin()
        while true {
            if exchange.record != record { try device.keep(exchange.record) }
            do {
                switch action {
                case .makeKey: action = exchange.keyMade(try attestor.generateKey())
                case .attest(let key, let hash):
                    let attestation = try attestor.attestation(of: key, clientDataHash: hash)
                    if cut == .afterAttesting { return .cutOff }
                    action = exchange.attested(attestation)
                case .assert(let key, let hash):
                    action = exchange.asserted(
                        try attestor.assertion(by: key, clientDataHash: hash), now: service.now + clockError)
                case .sign(let message): action = exchange.signed(try key.signature(over: message))
                case .send(let request):
                    if cut == .before(request.endpoint) { return .cutOff }
                    let answer = try service.answer(request)
                    if cut == .after(request.endpoint) { return .cutOff }
                    action = exchange.answered(answer, now: service.now + clockError)
                case .finish(let certificate):
                    try device.keep(certificate, library)
                    return .finished(certificate)
                case .fail(let failure): return .failed(failure)
                }
            } catch let fault as AttestorFault {
                action = exchange.attestorFailed(fault)
            }
        }
    }
}
