@testable import GatewayConfiguration

/// Mistakes in enrolment.
extension BrokenFile {
    static let enrolment = [
        BrokenFile(
            enrolling: "an enrolment without an address",
            "  address: 127.0.0.1:8444\n  tls:\n    certificate: server.pem\n    key: server.key\n  url",
            "  ▶tls:\n    certificate: server.pem\n    key: server.key\n  url",
            "`address` is missing"),
        BrokenFile(
            enrolling: "a name to listen on",
            "address: 127.0.0.1:8444",
            "address: ▶localhost:8444",
            "`localhost` is a name, not an address",
            suggestion: "127.0.0.1:8444"),
        BrokenFile(
            enrolling: "the address of a listener",
            "address: 127.0.0.1:8444",
            "address: ▶127.0.0.1:8443",
            "127.0.0.1:8443 is a listener of the gateway's clients"),
        BrokenFile(
            enrolling: "phones are asked for no certificate",
            "  url: https://localhost:8444",
            "    ▶clients: { authorities: [ca.pem] }\n  url: https://localhost:8444",
            "unknown key `clients`"),
        BrokenFile(
            enrolling: "enrolled devices without a certificate",
            "  url: https://localhost:8444",
            "  devices:\n    address: 127.0.0.1:8446\n    tls: { certificate: server.pem, key: server.key }\n"
                + "    clients: { authorities: [ca.pem], require: ▶optional }\n  url: https://localhost:8444",
            "devices are known by their certificates"),
        BrokenFile(
            enrolling: "enrolled devices at the address of all others",
            "  url: https://localhost:8444",
            "  devices:\n    address: ▶127.0.0.1:8444\n    tls: { certificate: server.pem, key: server.key }\n"
                + "    clients: { authorities: [ca.pem] }\n  url: https://localhost:8444",
            "127.0.0.1:8444 is the listener of enrolment"),
        BrokenFile(
            enrolling: "enrolled devices at the address of a listener",
            "  url: https://localhost:8444",
            "  devices:\n    address: ▶127.0.0.1:8443\n    tls: { certificate: server.pem, key: server.key }\n"
                + "    clients: { authorities: [ca.pem] }\n  url: https://localhost:8444",
            "127.0.0.1:8443 is a listener of the gateway's clients"),
        BrokenFile(
            enrolling: "renewals with certificates that no listener takes",
            "  url: https://localhost:8444",
            "  renewal: ▶mtls\n  url: https://localhost:8444",
            "`renewal: mtls` needs the listener `devices`"),
        BrokenFile(
            enrolling: "a time of grace where every device may renew",
            "  url: https://localhost:8444",
            "  renewal_grace: ▶7d\n  url: https://localhost:8444",
            "`renewal_grace` has no effect without `renewal: mtls`"),
        BrokenFile(
            enrolling: "a time of grace for which no certificate is remembered",
            "  url: https://localhost:8444",
            "  devices:\n    address: 127.0.0.1:8446\n    tls: { certificate: server.pem, key: server.key }\n"
                + "    clients: { authorities: [ca.pem] }\n  renewal_grace: ▶91d\n  url: https://localhost:8444",
            "`91d` is out of range"),
        BrokenFile(
            enrolling: "receipts without a key",
            "  content_limit",
            "  receipts:\n    ▶team: A1B2C3D4E5\n    key_id: ABCDE12345\n  content_limit",
            "`key` is missing"),
        BrokenFile(
            enrolling: "a team that is not an id from Apple",
            "  content_limit",
            "  receipts: { team: ▶a1b2c3d4e5, key_id: ABCDE12345, key: apple.p8 }\n  content_limit",
            "`a1b2c3d4e5` is not an id from Apple",
            suggestion: "A1B2C3D4E5"),
        BrokenFile(
            enrolling: "receipts that would leave the machine in the clear",
            "  content_limit",
            "  receipts: { team: A1B2C3D4E5, key_id: ABCDE12345, key: apple.p8, base_url: ▶'http://10.0.0.1:80' }\n"
                + "  content_limit",
            "`http://10.0.0.1:80` would be called unencrypted",
            suggestion: "https://10.0.0.1:80"),
        BrokenFile(
            enrolling: "receipts asked for at a URL with a slash at its end, quoted as it stands",
            "  content_limit",
            "  receipts: { team: A1B2C3D4E5, key_id: ABCDE12345, key: apple.p8, base_url: ▶'http://127.0.0.1:8450/' }\n"
                + "  content_limit",
            "`http://127.0.0.1:8450/` ends with a slash",
            suggestion: "http://127.0.0.1:8450"),
        BrokenFile(
            enrolling: "a URL without TLS",
            "url: https://localhost:8444",
            "url: ▶http://localhost:8444",
            "`http://localhost:8444` does not begin with https://",
            suggestion: "https://localhost:8444"),
        BrokenFile(
            enrolling: "a URL that is only a host",
            "url: https://localhost:8444",
            "url: ▶localhost:8444",
            "does not begin with https://",
            suggestion: "https://localhost:8444"),
        BrokenFile(
            enrolling: "a URL with a slash at the end",
            "url: https://localhost:8444",
            "url: ▶https://localhost:8444/",
            "`https://localhost:8444/` ends with a slash",
            suggestion: "https://localhost:8444"),
        BrokenFile(
            enrolling: "a URL with a query",
            "url: https://localhost:8444",
            "url: ▶https://localhost:8444/a?b",
            "is not a URL of scheme, host, port and path"),
        BrokenFile(
            enrolling: "a URL with a user",
            "url: https://localhost:8444",
            "url: ▶https://me@localhost:8444",
            "is not a URL of scheme, host, port and path"),
        BrokenFile(
            enrolling: "a URL without a host",
            "url: https://localhost:8444",
            "url: ▶https:///enrol",
            "is not a host name"),
        BrokenFile(
            enrolling: "a URL with a host in capitals",
            "url: https://localhost:8444",
            "url: ▶https://Enrol.example.org",
            "`Enrol.example.org` is not in lower case",
            suggestion: "https://enrol.example.org"),
        BrokenFile(
            enrolling: "a URL with a host in capitals and a port",
            "url: https://localhost:8444",
            "url: ▶https://Enrol.example.org:8444",
            "`Enrol.example.org` is not in lower case",
            suggestion: "https://enrol.example.org:8444"),
        BrokenFile(
            enrolling: "a URL with a port that is none",
            "url: https://localhost:8444",
            "url: ▶https://localhost:99999",
            "`99999` is not a port"),
        BrokenFile(
            enrolling: "an authority without its key",
            "    certificate: ca.pem\n    key: ca.key\n",
            "    ▶certificate: ca.pem\n",
            "`key` is missing"),
        BrokenFile(
            enrolling: "two passphrases",
            "passphrase_file: ca.passphrase",
            "passphrase_file: ca.passphrase\n    passphrase_variable: ▶CA_PASSPHRASE",
            "`passphrase_file` already names the passphrase"),
        BrokenFile(
            enrolling: "a variable as shells write it",
            "passphrase_file: ca.passphrase",
            "passphrase_variable: ▶$CA_PASSPHRASE",
            "this is not the name of a variable",
            suggestion: "CA_PASSPHRASE"),
        BrokenFile(
            enrolling: "a variable that is none",
            "passphrase_file: ca.passphrase",
            "passphrase_variable: ▶1CA",
            "this is not the name of a variable"),
        BrokenFile(
            enrolling: "a certificate that lives no minute",
            "certificate_life: 720h",
            "certificate_life: ▶59s",
            "`59s` is out of range"),
        BrokenFile(
            enrolling: "a certificate for more than a year",
            "certificate_life: 720h",
            "certificate_life: ▶366d",
            "`366d` is out of range"),
        BrokenFile(
            enrolling: "an overlap of half a second",
            "rotation_overlap: 0s",
            "rotation_overlap: ▶500ms",
            "is not a whole number of seconds"),
        BrokenFile(
            enrolling: "a nonce for a day",
            "nonce_life: 1m",
            "nonce_life: ▶1d",
            "`1d` is out of range"),
        BrokenFile(
            enrolling: "content smaller than an attestation",
            "content_limit: 48KiB",
            "content_limit: ▶16KiB",
            "`16KiB` is out of range"),
        BrokenFile(
            enrolling: "no requests",
            "requests_per_minute: 6",
            "requests_per_minute: ▶0",
            "0 is out of range"),
        BrokenFile(
            enrolling: "more connections for one client than for all",
            "connections_per_address: 2",
            "connections_per_address: ▶11",
            "`connections_per_address` (11) is larger than `connections` (10)"),
    ]

    /// Mistakes in the status list.
    static let statusList = [
        BrokenFile(
            enrolling: "a status list from two places",
            "  content_limit",
            "  android: { status_list: { url: ▶'https://localhost:8450/status', file: status.json } }\n  content_limit",
            "`url` has no effect beside `file`"),
        BrokenFile(
            enrolling: "a copy of a file",
            "  content_limit",
            "  android: { status_list: { file: status.json, copy: ▶copy } }\n  content_limit",
            "`copy` has no effect beside `file`"),
        BrokenFile(
            enrolling: "a status list fetched in the clear",
            "  content_limit",
            "  android: { status_list: { url: ▶'http://10.0.0.1/status' } }\n  content_limit",
            "`http://10.0.0.1/status` would be called unencrypted",
            suggestion: "https://10.0.0.1/status"),
        BrokenFile(
            enrolling: "a status list that is stale before the next fetch",
            "  content_limit",
            "  android: { status_list: { interval: 1h, stale_after: ▶1h } }\n  content_limit",
            "`stale_after` (1h) is not longer than `interval` (1h)"),
        BrokenFile(
            enrolling: "a status list fetched once a month",
            "  content_limit",
            "  android: { status_list: { interval: ▶30d } }\n  content_limit",
            "`30d` is out of range"),
    ]

    /// Mistakes in admission.
    static let admission = [
        BrokenFile(
            enrolling: "nothing about who lets devices in",
            """
              address: 127.0.0.1:8444
              tls:
                certificate: server.pem
                key: server.key
              url: https://localhost:8444
              authority:
                certificate: ca.pem
                key: ca.key
                passphrase_file: ca.passphrase
              certificate_life: 720h
              rotation_overlap: 0s
              nonce_life: 1m
              admission: token
              token:
                issuer: https://login.example.org/
                audience: https://enrol.example.org
                keys: [login.pem, login-next.pem]
            """,
            """
              ▶address: 127.0.0.1:8444
              tls:
                certificate: server.pem
                key: server.key
              url: https://localhost:8444
              authority:
                certificate: ca.pem
                key: ca.key
            """,
            "`admission` is missing"),
        BrokenFile(
            enrolling: "an unknown admission",
            "admission: token",
            "admission: ▶tokens",
            "`tokens` is not a known value",
            suggestion: "token"),
        BrokenFile(
            enrolling: "an issuer whose tokens nobody asks for",
            "admission: token\n  token:\n    ",
            "admission: open\n  token:\n    ▶",
            "`token` has no effect with `admission: open`"),
        BrokenFile(
            enrolling: "an issuer beside an operator",
            "admission: token\n  token:\n    ",
            "admission: approval\n  token:\n    ▶",
            "`token` has no effect with `admission: approval`"),
        BrokenFile(
            enrolling: "tokens of nobody",
            """
              admission: token
              token:
                issuer: https://login.example.org/
                audience: https://enrol.example.org
                keys: [login.pem, login-next.pem]

            """,
            "  admission: ▶token\n",
            "`admission: token` needs the issuer of the tokens"),
        BrokenFile(
            enrolling: "an issuer whose keys are nowhere",
            """
                issuer: https://login.example.org/
                audience: https://enrol.example.org
                keys: [login.pem, login-next.pem]
            """,
            """
                ▶issuer: https://login.example.org/
                audience: https://enrol.example.org
            """,
            "`token` has no keys of the issuer"),
        BrokenFile(
            enrolling: "keys in two places",
            "keys: [login.pem, login-next.pem]",
            "keys: [login.pem]\n    jwks_uri: ▶https://login.example.org/keys",
            "`keys` already says where the keys are"),
        BrokenFile(
            enrolling: "a JWK Set beside discovery",
            "keys: [login.pem, login-next.pem]",
            "jwks_uri: https://login.example.org/keys\n    discovery: ▶true",
            "`jwks_uri` already says where the keys are"),
        BrokenFile(
            enrolling: "fetches of keys in files",
            "keys: [login.pem, login-next.pem]",
            "keys: [login.pem]\n    interval: ▶10s",
            "`interval` has no effect beside `keys`, which are not fetched"),
        BrokenFile(
            enrolling: "keys that would be fetched unencrypted",
            "keys: [login.pem, login-next.pem]",
            "jwks_uri: ▶http://login.example.org/keys",
            "`http://login.example.org/keys` would be called unencrypted",
            suggestion: "https://login.example.org/keys"),
        BrokenFile(
            enrolling: "keys that are stale before the next fetch",
            "keys: [login.pem, login-next.pem]",
            "discovery: true\n    interval: 1h\n    stale_after: ▶1h",
            "the keys would be stale before the next fetch: `stale_after` (1h) is not longer than `interval` (1h)"),
        BrokenFile(
            enrolling: "an issuer without keys",
            "keys: [login.pem, login-next.pem]",
            "keys: ▶[]",
            "the list is empty"),
        BrokenFile(
            enrolling: "an issuer with more keys than are tried",
            "keys: [login.pem, login-next.pem]",
            "keys: ▶[1, 2, 3, 4, 5, 6, 7, 8, 9]",
            "the list has 9 entries"),
        BrokenFile(
            enrolling: "an issuer that is no URL",
            "issuer: https://login.example.org/",
            "issuer: ▶login",
            "`login` does not begin with https://",
            suggestion: "https://login"),
    ]
}
