internal import Cryptography
public import TrustClient
public import Vocabulary

/// The hardware key of a simulated device, as an app sees one: for `AttestedClient` on systems without App Attest.
public actor SimulatedHardwareKey: HardwareKey {
    public nonisolated let keyID: KeyID
    private let maker: AssertionMaker
    private let counter: CounterFile

    public init(_ device: DeviceDirectory, form: AssertionForm = .iOS14) throws {
        let library = try LibraryContext()
        let maker = try AssertionMaker(
            device.hardwareKey(library), rpID: device.appID.description, form: form, library)
        keyID = maker.keyID
        self.maker = maker
        counter = device.counter
    }

    public func assertion(clientDataHash: [UInt8]) throws -> [UInt8] {
        try maker.assertion(counter: counter.take(), clientDataHash: clientDataHash)
    }
}
