@testable import GatewayConfiguration

/// Mistakes in the registry and in the age of proofs.
extension BrokenFile {
    static let registry = [
        BrokenFile(
            attested: "a registry without a file",
            "  path: registry.sqlite\n  secret: challenge.secret\n",
            "  ▶secret: challenge.secret\n",
            "`path` is missing"),
        BrokenFile(
            attested: "a registry in a file",
            "  path: registry.sqlite\n",
            "  path: registry.sqlite\n  ▶file: registry.sqlite\n",
            "unknown key `file`", suggestion: "path"),
        BrokenFile(
            attested: "a registry without a secret",
            "  path: registry.sqlite\n  secret: challenge.secret\n",
            "  ▶path: registry.sqlite\n",
            "`secret` is missing"),
        BrokenFile(
            attested: "a registry without settings",
            "registry:\n  path: registry.sqlite\n  secret: challenge.secret\n  devices: 1000\n",
            "▶registry:\n",
            "`registry` has no value"),
        BrokenFile(
            attested: "a registry in an empty path",
            "path: registry.sqlite",
            "path: ▶''",
            "the path is empty"),
        BrokenFile(
            attested: "a registry in a list",
            "path: registry.sqlite",
            "path: ▶[registry.sqlite]",
            "found a list"),
        BrokenFile(
            attested: "a secret in a variable that nothing has replaced",
            "secret: challenge.secret",
            "secret: ▶${SECRET}",
            "it does not exist, and none of this name is created; `$` and `~` are not expanded"),
        BrokenFile(
            attested: "a secret in the registry's file",
            "secret: challenge.secret",
            "secret: ▶registry.sqlite",
            "`conf/registry.sqlite` is already the file of `registry.path`"),
        BrokenFile(
            attested: "a secret in the registry's file, spelt differently",
            "secret: challenge.secret",
            "secret: ▶.//var/../registry.sqlite",
            "is already the file of `registry.path`"),
        BrokenFile(
            attested: "a registry in two places",
            "path: registry.sqlite",
            "path: registry.sqlite\n  postgresql: { ▶hosts: [/run/postgresql] }",
            "`path` already names a store"),
        BrokenFile(
            attested: "a database that the network can read along with",
            "path: registry.sqlite",
            "postgresql: { hosts: ▶[/run/postgresql, db.internal] }",
            "db.internal is not authenticated, and the connection to it is not encrypted"),
        BrokenFile(
            attested: "a database without hosts",
            "path: registry.sqlite",
            "postgresql: { ▶port: 5433 }",
            "`hosts` is missing"),
        BrokenFile(
            attested: "two hosts in one",
            "path: registry.sqlite",
            "postgresql: { hosts: [▶'/run/a,/run/b'] }",
            "has a comma"),
        BrokenFile(
            attested: "a host with a port",
            "path: registry.sqlite",
            "postgresql: { hosts: [▶'127.0.0.1:5432'] }",
            "is more than a host", suggestion: "127.0.0.1"),
        BrokenFile(
            attested: "a database that is a list of parameters",
            "path: registry.sqlite",
            "postgresql: { hosts: [/run/postgresql], database: ▶'host=elsewhere' }",
            "`host=elsewhere` is not the name of a database or role"),
        BrokenFile(
            attested: "a certificate for the database without its key",
            "path: registry.sqlite",
            "postgresql: { hosts: [db.internal], tls: { authorities: ca.pem, certificate: ▶server.pem } }",
            "`certificate` requires `key`"),
        BrokenFile(
            attested: "too few devices",
            "devices: 1000",
            "devices: ▶15",
            "15 is out of range"),
        BrokenFile(
            attested: "too many devices",
            "devices: 1000",
            "devices: ▶16777217",
            "16777217 is out of range"),
        BrokenFile(
            attested: "an administration without a socket",
            "administration:\n  socket: administration.socket\n",
            "administration: ▶{}\n",
            "`socket` is missing"),
        BrokenFile(
            attested: "a socket whose path is too long",
            "socket: administration.socket",
            "socket: ▶" + String(repeating: "s", count: 103),
            "has 108 bytes"),
        BrokenFile(
            attested: "a socket in the registry's file",
            "socket: administration.socket",
            "socket: ▶registry.sqlite",
            "is already the file of `registry.path`"),
        BrokenFile(
            attested: "a socket in the file of the secret",
            "socket: administration.socket",
            "socket: ▶./challenge.secret",
            "`conf/./challenge.secret` is already the file of `registry.secret`"),
        BrokenFile(
            attested: "an administration open to everybody on the machine",
            "  socket: administration.socket\n",
            "  socket: administration.socket\n  listeners:\n    - address: ▶127.0.0.1:9464\n",
            "anyone who can reach 127.0.0.1:9464 could administer the gateway"),
        BrokenFile(
            attested: "a token that would cross the network in clear",
            "  socket: administration.socket\n",
            "  socket: administration.socket\n  listeners:\n    - address: ▶192.0.2.1:9464\n      token_file: token\n",
            "the token would be sent to 192.0.2.1:9464 unencrypted"),
        BrokenFile(
            attested: "an administration where clients connect",
            "  socket: administration.socket\n",
            "  socket: administration.socket\n  listeners: ▶[{ address: 127.0.0.1:8443, token_file: token }]\n",
            "127.0.0.1:8443 is a listener of the gateway's clients"),
        BrokenFile(
            attested: "an administration for every phone",
            "  socket: administration.socket\n",
            "  socket: administration.socket\n  listeners: ▶[{ address: 127.0.0.1:9464, tls: { certificate: a.pem, key: a.key,"
                + " clients: { authorities: [ca.pem] } } }]\n",
            "every client of the gateway can have a certificate of `conf/ca.pem`"),
        BrokenFile(
            attested: "an administration at one address twice",
            "  socket: administration.socket\n",
            "  socket: administration.socket\n  listeners:\n    - { address: 127.0.0.1:9464, token_file: token }\n"
                + "    - { address: ▶127.0.0.1:9464, token_file: token }\n",
            "127.0.0.1:9464 is listed twice"),
        BrokenFile(
            attested: "a host without a port",
            "  socket: administration.socket\n",
            "  socket: administration.socket\n  listeners:\n    - { address: 127.0.0.1:9464, token_file: token, hosts: [▶gateway] }\n",
            "`gateway` has no port"),
        BrokenFile(
            attested: "an access log in the registry's file",
            "proof:\n",
            "log: { access: ▶./registry.sqlite }\nproof:\n",
            "is already the file of `registry.path`"),
        BrokenFile(
            attested: "a proof that may hardly age",
            "max_age: 60s",
            "max_age: ▶9s",
            "`9s` is out of range"),
        BrokenFile(
            attested: "a proof that may be too old",
            "max_age: 60s",
            "max_age: ▶61m",
            "`61m` is out of range"),
        BrokenFile(
            attested: "a fraction of a second",
            "max_age: 60s",
            "max_age: ▶60500ms",
            "`60500ms` is not a whole number of seconds"),
        BrokenFile(
            attested: "a challenge that lives too long",
            "challenge_life: 2m",
            "challenge_life: ▶2h",
            "`2h` is out of range"),
        BrokenFile(
            attested: "a challenge whose life has no unit",
            "challenge_life: 2m",
            "challenge_life: ▶120",
            "`120` has no unit",
            suggestion: "120s"),
        BrokenFile(
            attested: "a misspelt key of the proof",
            "max_age: 60s",
            "▶maxage: 60s",
            "unknown key `maxage`",
            suggestion: "max_age"),
    ]
}
