public import ArgumentParser
internal import Cryptography
public import DeviceSimulator
internal import Foundation

/// Which phone signs, and how.
struct PhoneOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Use this counter value; the stored one does not change.", valueName: "N"))
    var counter: UInt32?
    @Option(help: ArgumentHelp("Use the hash of this text in place of the app id's.", valueName: "TEXT"))
    var rpId: String?
    @Option(
        help: ArgumentHelp("Sign with this P-256 key, but send the device's key id.", valueName: "PEM"),
        completion: .file())
    var hardwareKey: String?
    @Option(
        help:
            "The operating system whose assertion form is used: \(AssertionForm.allCases.map(\.rawValue).joined(separator: ", "))."
    )
    var form: AssertionForm = .iOS14

    /// Whether the phone signs as its owner registered it.
    var isGenuine: Bool { counter == nil && rpId == nil && hardwareKey == nil }

    func phone(_ device: DeviceDirectory, _ library: LibraryContext) throws -> Phone {
        let own = try device.hardwareKey(library)
        let maker = try AssertionMaker(own, rpID: rpId ?? device.appID.description, form: form, library)
        guard let hardwareKey else { return Phone(device, claims: maker, signsWith: maker, counter: counter) }
        let other = try PrivateKey(pem: RequestBody.file(hardwareKey), library)
        let signer = try AssertionMaker(other, rpID: rpId ?? device.appID.description, form: form, library)
        return Phone(device, claims: maker, signsWith: signer, counter: counter)
    }
}

extension AssertionForm: ExpressibleByArgument {}
