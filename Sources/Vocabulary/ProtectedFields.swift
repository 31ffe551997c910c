/// Request fields that services believe, or by which they act: removed or refused. `docs/fields.md` names all of them.
public enum ProtectedFields {
    /// Of this gateway, or about the certificate that it verifies: removed, whatever the conf file says.
    public static let own: [FieldPattern] = ["attest-*", "client-cert*", "forwarded"]

    /// Removed: what proxies and content networks state about a client, and authenticating proxies about its user.
    public static let removed: [FieldPattern] = [
        // Address, host and scheme, as proxies state them.
        "x-forwarded", "x-forwarded-*", "x-original-*", "x-real-ip", "x-host", "x-http-host-override", "x-scheme",
        "x-url-scheme", "front-end-https", "client-ip", "x-client-ip", "x-cluster-client-ip", "x-originating-ip",
        "x-proxyuser-ip", "proxy-client-ip", "wl-proxy-*", "x-envoy-*",
        // The same, as content networks state them.
        "true-client-ip", "cf-*", "cloudfront-*", "fastly-*", "fly-client-ip", "do-connecting-ip", "incap-client-ip",
        "ali-cdn-real-ip", "x-akamai-*", "x-appengine-*", "x-azure-*", "x-nf-client-connection-ip",
        "x-sucuri-clientip", "x-vercel-*",
        // Certificates.
        "ssl-client-*", "x-ssl-*", "x-client-cert*", "x-client-verify", "x-client-dn", "x-arr-*", "x-amzn-mtls-*",
        "x-spiffe-*",
        // Users.
        "remote-*", "x-remote-*", "x-auth-request-*", "x-webauth-*", "x-consumer-*", "x-credential-*",
        "x-anonymous-consumer", "x-authenticated-*", "x-authentik-*", "x-pomerium-*", "x-amzn-oidc-*",
        "x-ms-client-principal*", "x-ms-token-*", "x-goog-authenticated-user-*", "x-goog-iap-*", "impersonate-*",
        "oidc-*", "shib-*", "sm-*", "iv-*", "tailscale-*", "x-device-token", "zeta-*",
        // CGI programs take it for the proxy of their own requests (CVE-2016-5385).
        "proxy",
    ]

    /// Refused: they make services execute another method or path than the one that was decided about.
    public static let refused: [FieldPattern] = [
        "x-http-method-override", "x-http-method", "x-method-override", "x-http-path-override", "x-override-url",
        "x-original-url", "x-original-uri", "x-original-method", "x-original-path", "x-rewrite-url",
    ]

    /// Forwarded or used here, with a meaning that no second spelling may have.
    public static let meaningful: [FieldPattern] = [
        "accept-*", "cache-control", "content-*", "http2-settings", "if-*", "keep-alive", "last-modified", "proxy-*",
        "sec-*", "set-cookie", "signature-input", "transfer-encoding", "user-agent",
    ]

    /// Fields that no decision point receives, whatever the conf file says: they authenticate a client, prove a request,
    /// or carry the client's certificate.
    public static let secret: [FieldPattern] = [
        "authorization", "proxy-authorization", "authentication-*", "www-authenticate", "cookie*", "set-cookie*",
        "dpop*", "oauth-client-attestation*", "x-auth-*", "x-csrf-*", "x-xsrf-*", "x-functions-key",
        "ocp-apim-subscription-key", "sec-websocket-*", "x-amzn-oidc-*", "x-goog-iap-*", "x-ms-client-principal*",
        // Proofs, and digests of content.
        "attest-*", "signature*", "accept-signature", "content-digest", "repr-digest", "digest", "content-md5",
        // Certificates.
        "client-cert*", "forwarded", "ssl-client-*", "x-ssl-*", "x-client-cert*", "x-forwarded-client-cert*",
        "x-forwarded-tls-client-cert*", "x-arr-clientcert*", "x-amzn-mtls-*",
    ]

    /// Parts of names that suggest a secret.
    private static let secretWords = ["token", "secret", "password", "passwd", "credential", "api-key", "apikey"]

    /// Whether a field must never reach a decision point.
    ///
    /// - Parameter name: in any case.
    public static func isSecret(_ name: String) -> Bool {
        let plain = plain(name)
        return secret.contains { $0.matches(plain) } || secretWords.contains { plain.contains($0) }
    }

    /// Whether a field with an unusual name could be read as one of these: as a name, every character other than letters and
    /// digits is read as `-`.
    ///
    /// - Parameter name: in any case.
    public static func isSpelling(_ name: String) -> Bool {
        let plain = plain(name)
        return [own, removed, refused, meaningful].contains { $0.contains { $0.matches(plain) } }
    }

    /// The name in lower case, with `-` for every character other than letters and digits.
    public static func plain(_ name: String) -> String {
        String(
            decoding: name.utf8.map { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): byte
                case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
                default: UInt8(ascii: "-")
                }
            }, as: UTF8.self)
    }
}

/// The name of a field, or with `*` at its end what names begin with; in lower case.
public struct FieldPattern: ExpressibleByStringLiteral, Sendable {
    /// Without the `*`.
    public let text: String
    public let isPrefix: Bool

    public init(stringLiteral pattern: String) {
        isPrefix = pattern.hasSuffix("*")
        text = isPrefix ? String(pattern.dropLast()) : pattern
    }

    /// - Parameter name: in lower case.
    public func matches(_ name: String) -> Bool { isPrefix ? name.hasPrefix(text) : name == text }
}
