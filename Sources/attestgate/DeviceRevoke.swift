internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Lifecycle

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
        try access.print(.page(page), people: people)
    }

    private func configuredIssuer() throws -> String {
        guard case .token(let token) = try access.file.read().enrolment?.admission else {
            throw Failure("\(access.file.config): there is no `enrolment.token.issuer`: name one with --issuer")
        }
        return token.issuer.text
    }

    private func revoke(_ name: SubjectName) throws -> [DeviceDocument] {
        let configuration = try access.file.read()
        do {
            return try access.administration().revoke(name) { () throws(DeviceAdministrationError) in
                do {
                    guard let registry = configuration.registry else { throw Failure("there is no section `registry`") }
                    return try RegistrySecrets.subjects(path: registry.secretPath, LibraryContext())
                } catch {
                    throw .failed("\(error)")
                }
            }
        } catch let error as DeviceAdministrationError {
            throw Failure("\(error)")
        }
    }
}
