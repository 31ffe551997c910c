internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Encoding
internal import Lifecycle
internal import Registry
internal import Vocabulary

struct DeviceRevoke: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Revoke a device, or all devices of a person.",
        discussion: """
            Takes effect on open connections too. A revoked device is unchanged.

            With --subject, all devices that a person's admission tokens admitted are revoked, and that person's \
            tokens admit no other device, permanently. You can restore the devices one by one, but not the person's \
            right to enrol. The registry stores people as keyed pseudonyms, so subject and issuer must be exactly as \
            in the tokens. The issuer is `enrolment.token.issuer` of the conf file unless --issuer names another. A \
            person without devices is barred too. Other users of the machine can see the command line: --subject - \
            reads the subject from standard input.
            """)

    @OptionGroup var access: DeviceAccess

    @Argument(
        help: ArgumentHelp("The device, as in `device show`.", valueName: "DEVICE"),
        transform: DeviceReference.init(argument:))
    var device: DeviceReference?

    @Option(help: ArgumentHelp("The person: the `sub` of the tokens; - for standard input.", valueName: "SUBJECT"))
    var subject: String?

    @Option(
        help: ArgumentHelp("The issuer of the tokens: their `iss`, if it is not the conf file's.", valueName: "ISSUER"))
    var issuer: String?

    func validate() throws {
        guard issuer == nil || subject != nil else { throw ValidationError("--issuer requires --subject") }
        guard (device == nil) != (subject == nil) else {
            throw ValidationError("name a device, or use --subject")
        }
    }

    func run() throws {
        if let device { return try access.perform(.revoke(device.selection(access))) }
        let issuer = try issuer ?? configuredIssuer()
        guard let subject = subject == "-" ? readLine() : subject,
            let name = SubjectName(issuer: issuer, subject: subject)
        else { throw Failure("the subject must have 1 to 255 bytes, the issuer 1 to 1024") }
        let page = DevicePage(devices: try revoke(name), next: nil)
        let people =
            page.devices.isEmpty
            ? "no device to revoke; the subject is barred" : DeviceListing.text(of: page.devices, next: nil)
        try access.print(page, people: people)
    }

    private func configuredIssuer() throws -> String {
        guard case .token(let token) = try access.file.read().enrolment?.admission else {
            throw Failure("\(access.file.config): there is no `enrolment.token.issuer`: name one with --issuer")
        }
        return token.issuer.text
    }

    private func revoke(_ name: SubjectName) throws -> [DeviceDocument] {
        let configuration = try access.file.read()
        return try access.administration().revoke(name) { () throws(DeviceAdministrationError) in
            do {
                guard let registry = configuration.registry else { throw Failure("there is no section `registry`") }
                return try RegistrySecrets.subjects(path: registry.secretPath, LibraryContext())
            } catch {
                throw .failed("\(error)")
            }
        }
    }
}

/// The argument that names a device.
struct DeviceName: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            """
            The device's number; the key id of its hardware key or of a bound certificate key (base64, base64url or \
            hexadecimal); or its 16-digit hexadecimal name in logs, which takes longer.
            """, valueName: "DEVICE"),
        transform: DeviceReference.init(argument:))
    var reference: DeviceReference
}

enum DeviceReference {
    case selection(DeviceSelection)
    /// The member `device` of the access log.
    case logged(UInt64)

    init(argument text: String) throws {
        // No device number has this many digits.
        if text.utf8.count == 16, let octets = Hexadecimal.decode(text.lowercased()) {
            self = .logged(octets.reduce(0) { $0 << 8 | UInt64($1) })
        } else if let selection = DeviceSelection(text) {
            self = .selection(selection)
        } else {
            throw ValidationError(
                "'\(text)' is not a device number, a key id or a device's name in logs")
        }
    }

    /// Returns the reference for the registry.
    func selection(_ access: DeviceAccess) throws -> DeviceSelection {
        switch self {
        case .selection(let selection): selection
        case .logged(let name): try Self.find(name, access)
        }
    }

    /// Searches all devices, because the registry stores no log names and cannot compute them alone.
    private static func find(_ name: UInt64, _ access: DeviceAccess) throws -> DeviceSelection {
        guard let registry = try access.file.read().registry else { throw Failure("there is no section `registry`") }
        let names = try RegistrySecrets.logNames(path: registry.secretPath, LibraryContext())
        let administration = try access.administration()
        var next: Int64? = 0
        while let after = next {
            let operation = DeviceOperation.list(after: DeviceID(after), limit: DeviceOperation.largestPage)
            guard case .page(let page) = try administration.perform(operation) else { break }
            for device in page.devices {
                guard let selection = DeviceSelection(device.keyID), case .key(let key) = selection else { continue }
                if try names.name(of: key) == name { return selection }
            }
            next = page.next
        }
        throw Failure("no device has this name in logs; names depend on the secret \(registry.secretPath)")
    }
}
