internal import Administration
internal import ArgumentParser

struct ServiceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "service",
        abstract: "Administer the services of the federation.",
        discussion: """
            Services join by themselves, with the token of an operator in `federation.operators`. A service is used \
            only once it is approved here. Contacts a running gateway through the socket in the section \
            `administration` of the conf file; otherwise opens the registry itself.

            Exit status: 0 success, 1 failure, 2 usage error.
            """,
        subcommands: [ServiceListCommand.self, ServiceApprove.self, ServiceRemove.self])
}

private struct ServiceListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List services by their ids.")

    @OptionGroup var access: DeviceAccess

    func run() throws { try access.perform(.list) }
}

private struct ServiceApprove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Approve a service that has joined, or one that was removed.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var service: ServiceName

    func run() throws { try access.perform(.approve(service.id)) }
}

private struct ServiceRemove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a service: its token, and those for it, are refused.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var service: ServiceName

    func run() throws { try access.perform(.remove(service.id)) }
}

private struct ServiceName: ParsableArguments {
    @Argument(help: ArgumentHelp("The service's UUID, as `service list` shows it.", valueName: "SERVICE"))
    var id: String

    func validate() throws {
        let isID = id.utf8.count == 36 && id.utf8.allSatisfy { "0123456789abcdef-".utf8.contains($0) }
        guard isID else { throw ValidationError("SERVICE is a UUID in lower case") }
    }
}

extension DeviceAccess {
    fileprivate func perform(_ operation: ServiceOperation) throws {
        let list = try administration().perform(operation)
        let rows = list.services.map { [$0.id, $0.state, $0.joinedAt, $0.url, $0.name] }
        let table = Columns.aligned([["SERVICE", "STATE", "JOINED", "URL", "NAME"]] + rows)
        try print(list, people: table.joined(separator: "\n"))
    }
}
