internal import Cryptography
internal import HTTP
internal import Registry

/// Operations on devices as requests: here the server's way to read them, below the client's way to write them.
enum DeviceEndpoints {
    typealias Perform = (RegistryCommand, @escaping DeviceOperation.Completion<RegistryReply>) -> Void

    /// - Parameter audit: told of each change that was asked for.
    static func all(
        performing perform: @escaping Perform, _ library: LibraryContext, audit: @escaping (String) -> Void
    ) -> [AdministrationEndpoint] {
        func run(
            _ operation: DeviceOperation, _ request: AdministrationRequest, _ reply: AdministrationReply,
            status: UInt16 = 200
        ) {
            operation.run(perform) { result in
                if let change = operation.change { audit("\(change)\(outcome(of: result)), by \(request.peer)") }
                switch result {
                case .success(let answer): reply.send(AdministrationResponse(status, json: answer))
                case .failure(let fault): reply.send(AdministrationResponse(fault))
                }
            }
        }
        return [
            AdministrationEndpoint(.get, "/devices", query: ["after", "limit", "state"]) {
                request, reply throws(AdministrationFault) in
                run(try list(request.query), request, reply)
            },
            AdministrationEndpoint(.post, "/devices", takesContent: true) {
                request, reply throws(AdministrationFault) in
                run(.add(try DeviceRegistration(json: request.content, library)), request, reply, status: 201)
            },
            AdministrationEndpoint(.get, "/devices/{device}") { request, reply throws(AdministrationFault) in
                run(.show(try selection(request)), request, reply)
            },
            AdministrationEndpoint(.post, "/devices/{device}/approve") { request, reply throws(AdministrationFault) in
                run(.approve(try selection(request)), request, reply)
            },
            AdministrationEndpoint(.post, "/devices/{device}/revoke") { request, reply throws(AdministrationFault) in
                run(.revoke(try selection(request)), request, reply)
            },
            AdministrationEndpoint(.post, "/devices/{device}/restore") { request, reply throws(AdministrationFault) in
                run(.restore(try selection(request)), request, reply)
            },
        ]
    }

    /// By its number alone: a key id is what services and logs must not know a device by.
    private static func outcome(of result: Result<DeviceAnswer, AdministrationFault>) -> String {
        switch result {
        case .success(.device(let device)): " \(device.device)"
        case .success(.page): ""
        case .failure(let fault): " refused: \(fault.error)"
        }
    }

    private static func selection(_ request: AdministrationRequest) throws(AdministrationFault) -> DeviceSelection {
        guard let selection = DeviceSelection(request.parameter) else {
            throw .badRequest("A device is named by its number, or by a key id in base64url or hexadecimal.")
        }
        return selection
    }

    private static func list(_ query: [String: String]) throws(AdministrationFault) -> DeviceOperation {
        var after: DeviceID?
        if let text = query["after"] {
            guard let number = Int64(text), number >= 0, String(number) == text else {
                throw .badRequest("'after' is a device number, or 0.")
            }
            after = DeviceID(number)
        }
        var limit = DeviceOperation.usualPage
        if let text = query["limit"] {
            guard let number = Int(text), (1...DeviceOperation.largestPage).contains(number), String(number) == text
            else { throw .badRequest("'limit' is a number from 1 to \(DeviceOperation.largestPage).") }
            limit = number
        }
        switch query["state"] {
        case nil: return .list(after: after, limit: limit)
        case "pending": return .listPending(after: after, limit: limit)
        default: throw .badRequest("'state' is 'pending', or not there.")
        }
    }
}

extension DeviceOperation {
    /// What it changes, for the log; nil if nothing.
    fileprivate var change: String? {
        switch self {
        case .add: "device add"
        case .approve: "device approve"
        case .revoke: "device revoke"
        case .restore: "device restore"
        case .list, .listPending, .show: nil
        }
    }

    /// The request that asks a running gateway for it.
    var request: ClientRequest {
        switch self {
        case .add(let registration): ClientRequest(.post, "/devices", content: registration.json)
        case .list(let after, let limit):
            ClientRequest(.get, "/devices?after=\(after?.number ?? 0)&limit=\(limit)")
        case .listPending(let after, let limit):
            ClientRequest(.get, "/devices?state=pending&after=\(after?.number ?? 0)&limit=\(limit)")
        case .approve(let device): ClientRequest(.post, "/devices/\(device.segment)/approve")
        case .show(let device): ClientRequest(.get, "/devices/\(device.segment)")
        case .revoke(let device): ClientRequest(.post, "/devices/\(device.segment)/revoke")
        case .restore(let device): ClientRequest(.post, "/devices/\(device.segment)/restore")
        }
    }

    /// Reads what a running gateway has answered to it.
    func answer(_ content: [UInt8]) throws -> DeviceAnswer {
        switch self {
        case .list, .listPending: .page(try JSONText.decode(DevicePage.self, from: content))
        default: .device(try JSONText.decode(DeviceDocument.self, from: content))
        }
    }
}
