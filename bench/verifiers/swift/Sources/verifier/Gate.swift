import Foundation
import HTTPTypes
import Hummingbird

/// What nginx's auth_request asks whether a request may pass: 204, 401 or 403.
struct Gate: Sendable {
    let devices: Devices
    let counters: Counters
    let challenges: Challenges
    /// The one app whose requests pass.
    let app: String

    var router: Router<BasicRequestContext> {
        let router = Router()
        router.get("/.well-known/attestgate/challenge") { _, _ in
            Response(status: .noContent, headers: [.acceptSignature: challenges.offer(now: Self.now)])
        }
        router.on("/verify", method: .get) { request, _ in try await answer(request.headers) }
        return router
    }

    private func answer(_ fields: HTTPFields) async throws -> Response {
        let now = Self.now
        do {
            let issued = try await verify(fields, now)
            // A new one before the old one has ended.
            let isLate = now - issued > Challenges.life / 2
            return Response(status: .noContent, headers: isLate ? [.acceptSignature: challenges.offer(now: now)] : [:])
        } catch let refusal as Refusal {
            var headers: HTTPFields = [.attestDenial: refusal.code]
            if refusal.status == 401 { headers[.acceptSignature] = challenges.offer(now: now) }
            return Response(status: .init(code: refusal.status), headers: headers)
        }
    }

    /// - Returns: when the proof's challenge was issued.
    private func verify(_ fields: HTTPFields, _ now: Int64) async throws -> Int64 {
        guard let method = fields[.originalMethod], let authority = fields[.originalAuthority],
            let target = fields[.originalTarget], let certificate = fields[.clientCertificate]
        else { throw Refusal("request_malformed", status: 403) }
        // What has content cannot be proven here: auth_request is done before nginx has read it.
        guard method == "GET" || method == "HEAD", fields[.originalContentLength] ?? "0" == "0" else {
            throw Refusal("method_refused", status: 403)
        }
        let device = try devices.device(ofCertificate: certificate)
        guard device.app == app else { throw Refusal("device_unknown", status: 403) }
        let question = Question(method: method, authority: authority, target: target, fields: fields)
        let proof = try Proof(of: question, by: device, challenges, now: now)
        guard try await counters.spend(proof.counter, of: device) else { throw Refusal("counter_replayed") }
        return proof.issued
    }

    private static var now: Int64 { Int64(Date.now.timeIntervalSince1970) }
}
