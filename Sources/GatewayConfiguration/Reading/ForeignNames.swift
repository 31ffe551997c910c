/// The names of settings in nginx, HAProxy, Envoy and Traefik, with our names. A comparison of letters would not find
/// them.
enum ForeignNames {
    /// Returns our name for a key of another program.
    ///
    /// - Returns: the first of our names that the section has.
    static func meant(by key: String, among names: [String]) -> String? {
        table[key.lowercased()]?.first(where: names.contains)
    }

    private static let table: [String: [String]] = [
        "listen": ["address", "listeners"], "bind": ["address", "listeners"], "port": ["address"],
        "listener": ["listeners"],
        "frontend": ["listeners"], "frontends": ["listeners"], "entrypoints": ["listeners"],
        "server_name": ["host", "names"],
        "hostname": ["host"], "domain": ["host"], "virtual_hosts": ["hosts"], "location": ["path"], "prefix": ["path"],
        "match": ["path"], "uri": ["path"], "url": ["path"], "proxy_pass": ["upstream"],
        "backend": ["upstream", "upstreams"],
        "use_backend": ["upstream"], "default_backend": ["upstream"], "cluster": ["upstream", "upstreams"],
        "clusters": ["upstreams"], "backends": ["upstreams"], "services": ["upstreams"],
        "service": ["upstream", "upstreams"],
        "endpoints": ["servers"], "targets": ["servers"], "hosts": ["servers"],
        "ssl_verify_client": ["require"],
        "addresses": ["servers"], "auth": ["require"], "verify": ["require"], "allowed_methods": ["methods"],
        "ssl_certificate": ["certificate"], "crt": ["certificate"], "cert": ["certificate"],
        "cert_file": ["certificate"],
        "certificate_chain": ["certificate"], "ssl_certificate_key": ["key"], "private_key": ["key"],
        "key_file": ["key"],
        "ssl_client_certificate": ["authorities"], "ssl_trusted_certificate": ["authorities"], "ca": ["authorities"],
        "ca_file": ["authorities"], "cafile": ["authorities"], "trusted_ca": ["authorities"], "ssl_crl": ["crls"],
        "crl": ["crls"], "crl_file": ["crls"], "crl-file": ["crls"], "ssl_protocols": ["policy"], "ssl": ["tls"],
        "alpn": ["protocols"], "sni": ["server_name"], "client_max_body_size": ["content_limit"],
        "max_body_size": ["content_limit"], "proxy_connect_timeout": ["connect_timeout"],
        "proxy_read_timeout": ["response_timeout"], "keepalive_timeout": ["keep_alive", "idle_timeout"],
        "keepalive": ["idle_connections"], "maxconn": ["connections"], "max_connections": ["connections"],
        "worker_connections": ["connections"], "lb_policy": ["balance"], "load_balancing": ["balance"],
        "health_check": ["health"], "check": ["health"], "nbthread": ["workers"], "worker_processes": ["workers"],
        "threads": ["workers"], "concurrency": ["workers"], "access_log": ["access"], "log_format": ["format"],
        "log_level": ["level"], "error_log": ["level"], "limit_req": ["rate"], "rate_limit": ["rate"],
        "token": ["token_file"],
    ]
}
