@testable import GatewayConfiguration

/// Mistakes in policies and decision points.
extension BrokenFile {
    /// A route with the policy `strong`, and these sections.
    private init(policies description: String, _ sections: String, _ message: String, suggestion: String? = nil) {
        let route = Conf.attested(
            replacing: "    require: request-proof\n", by: "    require: request-proof\n    policy: strong\n")
        self.init(description, route + sections + "\n", message, suggestion: suggestion)
    }

    /// The policy `strong` with a decision point that has these settings.
    private init(point description: String, _ settings: String, _ message: String, suggestion: String? = nil) {
        self.init(
            policies: description,
            """
            policies:
              strong: { pdp: pdp }
            decision_points:
              pdp: { \(settings) }
            """, message, suggestion: suggestion)
    }

    static let deviceTokens = [
        BrokenFile(
            "a device token of no issuer", "require: certificate", "require: certificate\n    device_token: ▶required",
            "`device_token` needs the section `device_tokens`"),
        BrokenFile(
            "device tokens without a binding", "upstreams:",
            "device_tokens: { issuer: gms, jwks: keys.json, binding: ▶none }\nupstreams:",
            "`none` is not a known value"),
        BrokenFile(
            "device tokens without keys", "upstreams:", "device_tokens: { ▶issuer: gms }\nupstreams:",
            "`jwks` is missing"),
        BrokenFile(
            "an issuer with spaces around", "upstreams:",
            "device_tokens: { issuer: ▶' gms', jwks: keys.json }\nupstreams:", "is not the name of an issuer"),
        BrokenFile(
            "the field of device tokens forwarded by itself", "upstreams:",
            "device_tokens: { issuer: gms, jwks: keys.json }\nforward_headers: [▶x-device-token]\nupstreams:",
            "`x-device-token` is the field of `device_tokens`"),
        BrokenFile(
            enrolling: "device tokens that nobody signs", "  content_limit",
            "  device_tokens: { ▶issuer: gms }\n  content_limit", "`key` is missing"),
    ]

    static let clientAttestations = [
        BrokenFile(
            "client attestations of no attester", "require: certificate", "require: ▶client-attestation",
            "`require: client-attestation` needs the section `client_attestations`"),
        BrokenFile(
            "client attestations without keys", "upstreams:",
            "client_attestations: { ▶resource: https://localhost }\nupstreams:", "`jwks` is missing"),
        BrokenFile(
            "a resource with a slash at the end", "upstreams:",
            "client_attestations: { jwks: keys.json, resource: ▶https://localhost/ }\nupstreams:",
            "`https://localhost/` ends with a slash", suggestion: "https://localhost"),
        BrokenFile(
            "a client id with a space", "upstreams:",
            "client_attestations: { jwks: keys.json, resource: https://localhost, clients: [▶my wallet] }\nupstreams:",
            "`my wallet` is not a client id"),
        BrokenFile(
            enrolling: "a wallet without a key", "  content_limit", "  wallet: { ▶client: wallet }\n  content_limit",
            "`key` is missing"),
    ]

    static let policies = [
        BrokenFile(
            policies: "a source of no minimum",
            "policies:\n  strong: { ios: { minimum_os_source: ▶claimed, maximum_risk: 3 } }",
            "`minimum_os_source` has no effect without `minimum_os`"),
        BrokenFile(
            attested: "a policy that does not exist", "require: request-proof",
            "require: request-proof\n    policy: ▶strong", "there is no policy `strong`"),
        BrokenFile(
            "a policy without a registry", "require: certificate",
            "require: certificate\n    policy: ▶strong",
            "`policy` needs the section `registry`"),
        BrokenFile(
            policies: "conditions for a system that no app has",
            "policies:\n  strong:\n    android: { ▶minimum_patch_level: 2026-01 }",
            "no app of the policy's routes runs on Android"),
        BrokenFile(
            policies: "an unknown verdict", "policies:\n  strong: { ios: { minimum_os: ▶new } }",
            "`new` is not a system version"),
        BrokenFile(
            policies: "a section without conditions", "policies:\n  strong:\n    ios: ▶{}",
            "the section has no conditions"),
        BrokenFile(
            policies: "a misspelt condition", "policies:\n  strong:\n    ios: { ▶minimum_so: '17' }",
            "unknown key `minimum_so`", suggestion: "minimum_os"),
        BrokenFile(
            policies: "a bundle version that cannot be compared",
            "policies:\n  strong: { ios: { minimum_app_version: ▶1.2.3.4 } }",
            "is not a bundle version that can be compared"),
        BrokenFile(
            policies: "a decision point that does not exist",
            "policies:\n  strong: { pdp: ▶other }\ndecision_points:\n  other-pdp: { kind: opa, url: 'https://p.example', path: /v1/data/x, tls: { authorities: ca.pem } }",
            "there is no decision point `other`"),
        BrokenFile(
            policies: "a policy that simulates itself",
            "policies:\n  strong: { attested_within: 30d, simulation: ▶strong }",
            "would simulate itself"),
        BrokenFile(
            policies: "a simulation of a simulation",
            "policies:\n  strong: { attested_within: 30d, simulation: ▶next }\n  next: { attested_within: 20d, simulation: last }\n  last: { attested_within: 10d }",
            "has a `simulation` of its own"),
        BrokenFile(
            policies: "an age without a unit", "policies:\n  strong: { attested_within: ▶30 }",
            "`30` has no unit",
            suggestion: "30s"),
        BrokenFile(
            point: "a decision point in the clear on another machine",
            "kind: authzen, path: /e, url: ▶'http://pdp.example'", "would be called unencrypted",
            suggestion: "https://pdp.example"),
        BrokenFile(
            point: "a decision point without authorities", "kind: authzen, path: /e, url: ▶'https://pdp.example'",
            "`tls` is missing"),
        BrokenFile(
            point: "a decision point that is the gateway itself",
            "kind: authzen, path: /e, url: ▶'http://127.0.0.1:8443'", "is a listener of the gateway itself"),
        BrokenFile(
            point: "OPA without a path", "▶kind: opa, url: 'http://127.0.0.1:8181'", "`path` is missing"),
        BrokenFile(
            point: "a path that is not OPA's", "kind: opa, url: 'http://127.0.0.1:8181', path: ▶/health/allow",
            "is no path of OPA's Data API", suggestion: "/v1/data/health/allow"),
        BrokenFile(
            point: "metadata in the clear", "kind: authzen, url: ▶'http://127.0.0.1:8181'",
            "metadata are read from an https URL only"),
        BrokenFile(
            point: "a mapping for OPA",
            "kind: opa, url: 'http://127.0.0.1:8181', path: /v1/data/x, mapping: { ▶action: { GET: see } }",
            "`mapping` has no effect with `kind: opa`"),
        BrokenFile(
            point: "a profile for AuthZEN", "kind: authzen, url: 'http://127.0.0.1:8181', path: /e, profile: ▶dsr",
            "`profile` has no effect with `kind: authzen`"),
        BrokenFile(
            point: "a secret field", "kind: authzen, url: 'http://127.0.0.1:8181', path: /e, headers: [▶Cookie]",
            "may have a secret or a proof"),
        BrokenFile(
            point: "a field of other proxies",
            "kind: authzen, url: 'http://127.0.0.1:8181', path: /e, headers: [▶X-Forwarded-For]", "is always removed"),
        BrokenFile(
            point: "permission on failure", "kind: authzen, url: 'http://127.0.0.1:8181', path: /e, on_failure: ▶allow",
            "`allow` is not a known value"),
        BrokenFile(
            point: "a variable that no template has",
            "kind: authzen, url: 'http://127.0.0.1:8181', path: /e, mapping: { resource: { type: todo, id: ▶'{id}' } }",
            "not every path has this id"),
        BrokenFile(
            point: "a variable that is no whole segment",
            "kind: authzen, url: 'http://127.0.0.1:8181', path: /e, mapping: { templates: [ { path: ▶'/todos/x{id}' } ] }",
            "is no path with variables"),
    ]
}
