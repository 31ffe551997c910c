/// Suggestions for misspelt names.
enum Spelling {
    /// The maximum length of a word. Longer words are no misspelt keys, and take long to compare.
    private static let longest = 64

    /// Names from other programs that differ too much from ours for a comparison of letters.
    private static let names = ["warn": "warning", "http2": "h2", "http/2": "h2", "http/2.0": "h2"]

    /// Returns the nearest candidate, if at most a third of its letters, and at least one, differ.
    static func nearest(to word: String, among candidates: [String]) -> String? {
        guard word.utf8.count <= longest else { return nil }
        if let meant = names[word.lowercased()], candidates.contains(meant) { return meant }
        let letters = Array(word.lowercased())
        var best: (candidate: String, distance: Int)?
        for candidate in candidates {
            let distance = distance(letters, Array(candidate.lowercased()))
            let allowed = max(1, max(letters.count, candidate.count) / 3)
            if distance <= allowed, distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.candidate
    }

    /// Returns the optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours count
    /// one.
    static func distance(_ from: [Character], _ to: [Character]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...to.count)
        for row in from.indices {
            var current = [row + 1]
            for column in to.indices {
                let replaced = last[column] + (from[row] == to[column] ? 0 : 1)
                var cost = min(replaced, last[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0, from[row] == to[column - 1], from[row - 1] == to[column] {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            beforeLast = last
            last = current
        }
        return last[to.count]
    }
}

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
