internal import Registry

/// What operators ask of a gateway about the federation's services.
public enum ServiceOperation: Equatable, Sendable {
    case list
    case approve(String)
    case remove(String)

    /// The command to the registry.
    var command: RegistryCommand {
        switch self {
        case .list: .listServices(after: "", limit: FederationService.limit)
        case .approve(let id): .approveService(id)
        case .remove(let id): .removeService(id)
        }
    }

    /// Reads the reply of the registry.
    func answer(_ reply: RegistryReply) throws(AdministrationFault) -> ServiceList {
        switch reply {
        case .services(let services): return ServiceList(services: services.map { ServiceDocument($0) })
        case .service(.service(let service)): return ServiceList(services: [ServiceDocument(service)])
        case .service: throw AdministrationFault(404, "service_unknown", "There is no such service.")
        default: throw .storeUnavailable
        }
    }
}

/// `GET /services`, `POST /services/{id}/approve` and `POST /services/{id}/remove`.
enum ServiceEndpoints {
    /// - Parameter audit: Called for each requested change.
    static func all(
        performing perform: @escaping DeviceEndpoints.Perform, audit: @escaping (AdministrationAct) -> Void
    ) -> [AdministrationEndpoint] {
        func run(
            _ operation: ServiceOperation, act: String?, _ request: AdministrationRequest, _ reply: AdministrationReply
        ) {
            // Ids are UUIDs, which a log may contain. Other texts name nothing.
            let target = request.parameter.utf8.count == 36 ? request.parameter : nil
            let sentence = act?.replacing("_", with: " ") ?? ""
            perform(operation.command) { result in
                do throws(AdministrationFault) {
                    let list = try operation.answer(try result.get())
                    if let act { audit(AdministrationAct(act, sentence, target: target, by: request.peer)) }
                    reply.send(AdministrationResponse(json: list))
                } catch {
                    if let act { audit(AdministrationAct(act, sentence, target: target, error, by: request.peer)) }
                    reply.send(AdministrationResponse(error))
                }
            }
        }
        return [
            AdministrationEndpoint(.get, "/services") { run(.list, act: nil, $0, $1) },
            AdministrationEndpoint(.post, "/services/{service}/approve", act: "service_approve") {
                run(.approve($0.parameter), act: "service_approve", $0, $1)
            },
            AdministrationEndpoint(.post, "/services/{service}/remove", act: "service_remove") {
                run(.remove($0.parameter), act: "service_remove", $0, $1)
            },
        ]
    }
}
