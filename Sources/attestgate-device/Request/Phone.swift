internal import DeviceSimulator
internal import Vocabulary

/// The device of one run: whose key id it claims, and who signs.
struct Phone {
    let device: DeviceDirectory
    var keyID: KeyID { claimed.keyID }

    private let claimed: AssertionMaker
    private let signer: AssertionMaker
    private let fixedCounter: UInt32?

    init(_ device: DeviceDirectory, claims: AssertionMaker, signsWith signer: AssertionMaker, counter: UInt32?) {
        self.device = device
        claimed = claims
        self.signer = signer
        fixedCounter = counter
    }

    /// - Returns: the assertion, with the counter value in it.
    func assertion(clientDataHash: [UInt8]) throws -> (bytes: [UInt8], counter: UInt32) {
        let counter = try fixedCounter ?? device.counter.take()
        return (try signer.assertion(counter: counter, clientDataHash: clientDataHash), counter)
    }
}
