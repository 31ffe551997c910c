internal import Cryptography
internal import HTTP
internal import Registry

/// The server's side of operations on devices as requests. `DeviceOperation.request` is the client's side.
enum DeviceEndpoints {
    typealias Perform = (RegistryCommand, @escaping DeviceOperation.Completion<RegistryReply>) -> Void

    /// Returns all endpoints.
    ///
    /// - Parameter audit: Called for each requested change.
    static func all(
        performing perform: @escaping Perform, _ library: LibraryContext, audit: @escaping (AdministrationAct) -> Void
    ) -> [AdministrationEndpoint] {
        func run(
            _ operation: DeviceOperation, _ request: AdministrationRequest, _ reply: AdministrationReply,
            status: UInt16 = 200
        ) {
            operation.run(perform) { result in
                if let change = operation.change {
                    audit(act(change, of: operation.number, result, by: request.peer))
                }
                switch result {
                case .success(let answer): reply.send(AdministrationResponse(status, json: answer))
                case .failure(let fault): reply.send(AdministrationResponse(fault))
                }
            }
        }
        return [
            AdministrationEndpoint(.get, "/devices", query: ["after", "limit"] + DeviceSearch.members) {
                request, reply throws(AdministrationFault) in
                run(try list(request.query), request, reply)
            },
            AdministrationEndpoint(.post, "/devices", takesContent: true, act: "device_add") {
                request, reply throws(AdministrationFault) in
                run(.add(try DeviceRegistration(json: request.content, library)), request, reply, status: 201)
            },
            AdministrationEndpoint(.get, "/devices/{device}") { request, reply throws(AdministrationFault) in
                run(.show(try selection(request)), request, reply)
            },
            AdministrationEndpoint(.post, "/devices/{device}/approve", act: "device_approve") {
                request, reply throws(AdministrationFault) in
                run(.approve(try selection(request)), request, reply)
            },
            AdministrationEndpoint(.post, "/devices/{device}/revoke", act: "device_revoke") {
                request, reply throws(AdministrationFault) in
                run(.revoke(try selection(request)), request, reply)
            },
            AdministrationEndpoint(.post, "/devices/{device}/restore", act: "device_restore") {
                request, reply throws(AdministrationFault) in
                run(.restore(try selection(request)), request, reply)
            },
        ]
    }

    /// Returns the line of the audit log. It names a device by its number only, because logs must not contain key ids.
    private static func act(
        _ change: String, of number: String?, _ result: Result<DeviceAnswer, AdministrationFault>, by peer: String
    ) -> AdministrationAct {
        let name = "device_\(change)"
        return switch result {
        case .success(.device(let device)):
            AdministrationAct(
                name, "device \(change) \(device.device)", target: String(device.device), by: peer)
        case .success(.page): AdministrationAct(name, "device \(change)", by: peer)
        case .failure(let fault):
            AdministrationAct(
                name, "device \(change)\(number.map { " \($0)" } ?? "")", target: number, fault, by: peer)
        }
    }

    private static func selection(_ request: AdministrationRequest) throws(AdministrationFault) -> DeviceSelection {
        guard let selection = DeviceSelection(request.parameter) else {
            throw .badRequest("Name the device by its number, or by a key id in base64url or hexadecimal.")
        }
        return selection
    }

    private static func list(_ query: [String: String]) throws(AdministrationFault) -> DeviceOperation {
        var after: DeviceID?
        if let text = query["after"] {
            guard let number = Int64(text), number >= 0, String(number) == text else {
                throw .badRequest("'after' must be a device number, or 0.")
            }
            after = DeviceID(number)
        }
        var limit = DeviceOperation.usualPage
        if let text = query["limit"] {
            guard let number = Int(text), (1...DeviceOperation.largestPage).contains(number), String(number) == text
            else { throw .badRequest("'limit' must be a number from 1 to \(DeviceOperation.largestPage).") }
            limit = number
        }
        let search = try DeviceSearch(query: query)
        guard search != DeviceSearch() else { return .list(after: after, limit: limit) }
        // The page and older commands know how many devices follow.
        var pending = DeviceSearch()
        pending.state = .pending
        return search == pending
            ? .listPending(after: after, limit: limit) : .search(search, after: after, limit: limit)
    }
}

extension AdministrationEndpoint {
    /// Returns the endpoint that renews the epoch. It answers once the new epoch is durable and sent to every worker.
    ///
    /// - Parameter audit: Called for each request.
    static func renewEpoch(
        performing perform: @escaping DeviceEndpoints.Perform, audit: @escaping (AdministrationAct) -> Void
    ) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/registry/renew-epoch", act: "registry_renew_epoch") { request, reply in
            perform(.renewEpoch) { result in
                switch result {
                case .success:
                    audit(AdministrationAct("registry_renew_epoch", "registry renew-epoch", by: request.peer))
                    reply.send(AdministrationResponse(200, json: [String: String]()))
                case .failure(let fault):
                    audit(
                        AdministrationAct("registry_renew_epoch", "registry renew-epoch", fault, by: request.peer))
                    reply.send(AdministrationResponse(fault))
                }
            }
        }
    }
}
