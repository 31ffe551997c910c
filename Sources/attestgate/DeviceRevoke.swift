internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Lifecycle

struct DeviceRevoke: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Refuse a device, or all devices of somebody, from now on, on open connections too.",
        discussion: """
            A device that is revoked already stays as it is.

            With --subject, all devices that were admitted for somebody by an admission token are revoked, and no \
            token of theirs admits another, for good: there is no way to take that back, but the devices can be restored one by \
            one. The registry knows people by keyed pseudonyms alone, so subject and issuer must be written exactly as in the \
            tokens; the issuer is `enrolment.token.issuer` of the conf file unless --issuer names another. Of \
            nobody's devices it says so, and bars the subject all the same. Other users of the machine see the command line \
            while it runs: --subject - reads the subject from standard input.
            """)

    @OptionGroup var access: DeviceAccess

    @Argument(
        help: ArgumentHelp("The device, named as in `device show`.", valueName: "DEVICE"),
        transform: DeviceReference.init(argument:))
    var device: DeviceReference?

    @Option(help: ArgumentHelp("Whose devices: the `sub` of the tokens; - for standard input.", valueName: "SUBJECT"))
    var subject: String?

    @Option(help: ArgumentHelp("Who issued the tokens: their `iss`, if not the conf file's.", valueName: "ISSUER"))
    var issuer: String?

    func validate() throws {
        guard issuer == nil || subject != nil else { throw ValidationError("--issuer goes with --subject") }
        guard (device == nil) != (subject == nil) else {
            throw ValidationError("say what to revoke: a device, or --subject")
        }
    }

    func run() throws {
        if let device { return try access.perform(.revoke(device.selection(access))) }
        let issuer = try issuer ?? configuredIssuer()
        guard let subject = subject == "-" ? readLine() : subject,
            let name = SubjectName(issuer: issuer, subject: subject)
        else { throw Failure("the subject has 1 to 255 bytes, the issuer 1 to 1024") }
        let page = DevicePage(devices: try revoke(name), next: nil)
        let people =
            page.devices.isEmpty
            ? "no device to revoke; the subject is barred" : DeviceListing.text(of: page.devices, next: nil)
        try access.print(.page(page), people: people)
    }

    private func configuredIssuer() throws -> String {
        guard case .token(let token) = try access.file.read().enrolment?.admission else {
            throw Failure("\(access.file.config): there is no `enrolment.token.issuer`: name one by --issuer")
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
