public import ArgumentParser
internal import Cryptography
public import DeviceSimulator
internal import Foundation

/// Which phone signs, and how.
struct PhoneOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Use this counter value; the stored one stays as it is.", valueName: "N"))
    var counter: UInt32?
    @Option(help: ArgumentHelp("Put the hash of this text where the app id's belongs.", valueName: "TEXT"))
    var rpId: String?
    @Option(
        help: ArgumentHelp("Sign with this P-256 key, still claiming the device's key id.", valueName: "PEM"),
        completion: .file())
    var hardwareKey: String?
    @Option(
        help: "The system whose assertions look so: \(AssertionForm.allCases.map(\.rawValue).joined(separator: ", ")).")
    var form: AssertionForm = .iOS14

    /// Whether the phone signs as its owner registered it.
    var isGenuine: Bool { counter == nil && rpId == nil && hardwareKey == nil }

    func phone(_ device: DeviceDirectory, _ library: LibraryContext) throws -> Phone {
        let own = try device.hardwareKey(library)
        let maker = try AssertionMaker(own, rpID: rpId ?? device.appID.description, form: form, library)
        guard let hardwareKey else { return Phone(device, claims: maker, signsWith: maker, counter: counter) }
        let other = try PrivateKey(pem: RequestContent.file(hardwareKey), library)
        let signer = try AssertionMaker(other, rpID: rpId ?? device.appID.description, form: form, library)
        return Phone(device, claims: maker, signsWith: signer, counter: counter)
    }
}

extension AssertionForm: ExpressibleByArgument {}
