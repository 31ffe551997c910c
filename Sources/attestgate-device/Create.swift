internal import ArgumentParser
internal import Cryptography
internal import DeviceSimulator
internal import Encoding
internal import Foundation
internal import TrustClient
internal import Vocabulary

struct Create: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create a device: a hardware key, a key for its client certificate, and a counter.",
        discussion: """
            Prints the values for these commands, which register the device:
              attestgate device add --app-id ID --public-key B64 --certificate-key PEM
              attestgate pki issue --directory certs --certificate-key PEM --out DIR/certificate.pem
            `request` expects the client certificate there. With --self-signed, it is created here and self-signed, \
            for listeners with `registered` in `clients.accept`. All files are readable only by their owner; none is \
            replaced. An Android phone has an app id of the form android:PACKAGE.
            """)

    @Option(help: ArgumentHelp("The output directory.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(
        help: ArgumentHelp(
            "The app id, for example ABCDE12345.org.example.app or android:org.example.app.", valueName: "ID"))
    var appId: String

    @Option(help: ArgumentHelp("ios or android, as the form of the app id says. (default: by the app id)"))
    var platform: DevicePlatform?

    @Flag(help: "Also create a self-signed client certificate, valid for a year.")
    var selfSigned = false

    @Flag(help: "Print one JSON object.")
    var json = false

    func validate() throws {
        guard let app = AppID(appId) else {
            throw ValidationError("\(appId) is not of the form PREFIX.bundle.id or android:PACKAGE")
        }
        if let platform, (platform == .android) != app.isAndroid {
            throw ValidationError("\(appId) is not an app id of the platform \(platform.rawValue)")
        }
    }

    func run() throws {
        guard let app = AppID(appId) else { return }
        let library = try LibraryContext()
        let device = try DeviceDirectory.create(directory, appID: app, library)
        if selfSigned { try device.signCertificate(library) }
        let summary = Summary(
            device, try ProofSigner(device.hardwareKey(library), of: app, library), isSelfSigned: selfSigned)
        if json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            Terminal.put(line: String(decoding: try encoder.encode(summary), as: UTF8.self))
        } else {
            Terminal.put(line: summary.text)
        }
    }

    private struct Summary: Encodable {
        let appID: String
        let keyID: String
        let publicKey: String
        /// The path of the public key in PEM.
        let certificateKey: String
        /// The path for the client certificate.
        let certificate: String
        private let isSelfSigned: Bool

        enum CodingKeys: String, CodingKey {
            case appID = "app_id"
            case keyID = "key_id"
            case publicKey = "public_key"
            case certificateKey = "certificate_key"
            case certificate
        }

        init(_ device: DeviceDirectory, _ signer: ProofSigner, isSelfSigned: Bool) {
            self.isSelfSigned = isSelfSigned
            appID = device.appID.description
            keyID = signer.keyID.base64
            publicKey = Base64.encode(signer.point)
            certificateKey = device.certificatePublicKeyPath
            certificate = device.certificatePath
        }

        var text: String {
            """
            app id:          \(appID)
            key id:          \(keyID)
            public key:      \(publicKey)
            certificate key: \(certificateKey)
            certificate:     \(certificate) (\(isSelfSigned ? "self-signed" : "to be issued"))
            """
        }
    }
}

struct CA: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ca",
        abstract: "The simulator's own authority, in place of Apple's or Google's.",
        subcommands: [CAInit.self])
}

private struct CAInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Create the authority whose root gateways trust for simulated phones.",
        discussion: """
            Writes these files into the directory, readable only by their owner, and never replaces one:
              simulator-root.pem, simulator-root.key                  a root for gateways to trust instead of Apple's
              simulator-intermediate.pem, simulator-intermediate.key  issues the attestation certificates of iPhones
            With --platform android:
              simulator-android-root.pem, simulator-android-root.key  a root for gateways to trust instead of Google's
            """)

    @Option(help: "The platform of the phones: ios or android.")
    var platform: DevicePlatform = .ios

    @Option(help: ArgumentHelp("The output directory.", valueName: "DIR"), completion: .directory)
    var directory: String

    func run() throws {
        for path in try SimulatorAuthority.create(in: directory, for: platform) { Terminal.put(line: "wrote \(path)") }
    }
}
