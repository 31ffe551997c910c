internal import Registry

extension AdministrationEndpoint {
    /// Answered once the new epoch is durable, and told to every worker.
    /// - Parameter audit: told that it was asked for.
    static func renewEpoch(
        performing perform: @escaping DeviceEndpoints.Perform, audit: @escaping (String) -> Void
    ) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/registry/renew-epoch") { request, reply in
            perform(.renewEpoch) { result in
                if case .success = result { audit("registry renew-epoch, by \(request.peer)") }
                switch result {
                case .success: reply.send(AdministrationResponse(200, json: [String: String]()))
                case .failure(let fault): reply.send(AdministrationResponse(fault))
                }
            }
        }
    }
}
