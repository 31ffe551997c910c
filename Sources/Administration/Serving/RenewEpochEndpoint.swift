internal import Registry

extension AdministrationEndpoint {
    /// Answers once the new epoch is durable and sent to every worker.
    ///
    /// - Parameter audit: called for each request to renew the epoch.
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
