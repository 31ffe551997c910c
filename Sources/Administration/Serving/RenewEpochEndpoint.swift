internal import Registry

extension AdministrationEndpoint {
    /// Answered once the new epoch is durable, and told to every worker.
    static func renewEpoch(performing perform: @escaping DeviceEndpoints.Perform) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/registry/renew-epoch") { _, reply in
            perform(.renewEpoch) { result in
                switch result {
                case .success: reply.send(AdministrationResponse(200, json: [String: String]()))
                case .failure(let fault): reply.send(AdministrationResponse(fault))
                }
            }
        }
    }
}
