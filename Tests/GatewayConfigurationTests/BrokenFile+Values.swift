@testable import GatewayConfiguration

/// Values that are malformed or out of range.
extension BrokenFile {
    static let values = [
        BrokenFile(
            "no workers",
            "upstreams:\n",
            "workers: ▶0\nupstreams:\n",
            "0 is out of range"),
        BrokenFile(
            "too many workers",
            "upstreams:\n",
            "workers: ▶257\nupstreams:\n",
            "257 is out of range"),
        BrokenFile(
            "a misspelt auto",
            "upstreams:\n",
            "workers: ▶atuo\nupstreams:\n",
            "found `atuo`",
            suggestion: "auto"),
        BrokenFile(
            "a number in quotes",
            "upstreams:\n",
            "workers: ▶'4'\nupstreams:\n",
            "found text: `4`",
            suggestion: "4"),
        BrokenFile(
            "a fraction",
            "upstreams:\n",
            "limits: { fields: ▶9.5 }\nupstreams:\n",
            "found `9.5`"),
        BrokenFile(
            "a number that might be octal",
            "upstreams:\n",
            "limits: { fields: ▶010 }\nupstreams:\n",
            "found `010`"),
        BrokenFile(
            "a negative number",
            "upstreams:\n",
            "limits: { fields: ▶-1 }\nupstreams:\n",
            "found `-1`"),
        BrokenFile(
            "a number beyond all bounds",
            "upstreams:\n",
            "limits: { fields: ▶99999999999999999999 }\nupstreams:\n",
            "found `99999999999999999999`"),
        BrokenFile(
            "a rate without a period",
            "upstreams:\n",
            "limits: { rate_per_source: ▶100 }\nupstreams:\n",
            "`100` is not a rate",
            suggestion: "100/s"),
        BrokenFile(
            "a rate of content without a unit",
            "upstreams:\n",
            "timeouts: { content_rate: ▶500 }\nupstreams:\n",
            "`500` is not a rate",
            suggestion: "500B/s"),
        BrokenFile(
            "a rate of content that nobody has to keep",
            "upstreams:\n",
            "timeouts: { content_rate: ▶0B/s }\nupstreams:\n",
            "`0B/s` is out of range"),
        BrokenFile(
            "a rate of zero",
            "upstreams:\n",
            "limits: { rate_per_source: ▶0/s }\nupstreams:\n",
            "`0/s` is out of range"),
        BrokenFile(
            "a rate of devices that nobody knows",
            "upstreams:\n",
            "limits: { rate_per_device: ▶10/s }\nupstreams:\n",
            "`rate_per_device` needs the sections `registry` and `apps`, which know the devices"),
        BrokenFile(
            "a duration without a unit",
            "upstreams:\n",
            "timeouts: { head: ▶10 }\nupstreams:\n",
            "`10` has no unit",
            suggestion: "10s"),
        BrokenFile(
            "a duration with an unknown unit",
            "upstreams:\n",
            "timeouts: { head: ▶2min }\nupstreams:\n",
            "`min` is not a unit of time",
            suggestion: "2m"),
        BrokenFile(
            "a duration that is none",
            "upstreams:\n",
            "timeouts: { head: ▶soon }\nupstreams:\n",
            "`soon` is not a duration"),
        BrokenFile(
            "a duration that is too long",
            "upstreams:\n",
            "timeouts: { head: ▶1h }\nupstreams:\n",
            "`1h` is out of range"),
        BrokenFile(
            "a duration beyond all bounds",
            "upstreams:\n",
            "timeouts: { head: ▶9223372036854775807h }\nupstreams:\n",
            "is out of range"),
        BrokenFile(
            "a size with an unknown unit",
            "upstreams:\n",
            "limits: { head: ▶16KB }\nupstreams:\n",
            "`KB` is not a unit of size",
            suggestion: "16KiB"),
        BrokenFile(
            "a size in bytes with a unit",
            "upstreams:\n",
            "limits: { head: ▶2048B }\nupstreams:\n",
            "`B` is not a unit of size",
            suggestion: "2048"),
        BrokenFile(
            "a size that is too large",
            "upstreams:\n",
            "limits: { head: ▶32KiB }\nupstreams:\n",
            "`32KiB` is out of range"),
        BrokenFile(
            "a size beyond all bounds",
            "upstreams:\n",
            "limits: { head: ▶9223372036854775807GiB }\nupstreams:\n",
            "is out of range"),
        BrokenFile(
            "a target larger than the head",
            "upstreams:\n",
            "limits: { head: 8KiB, target: ▶9KiB }\nupstreams:\n",
            "`target` (9KiB) is larger than `head` (8KiB)"),
        BrokenFile(
            "an unknown policy of TLS",
            "      key: server.key\n",
            "      key: server.key\n      policy: ▶intermediat\n",
            "`intermediat` is not a known value",
            suggestion: "intermediate"),
        BrokenFile(
            "the old way to say the version of TLS",
            "      key: server.key\n",
            "      key: server.key\n      ▶minimum_version: \"1.2\"\n",
            "unknown key `minimum_version`",
            suggestion: "policy"),
        BrokenFile(
            "a listener's name",
            "127.0.0.1:8443",
            "▶localhost:8443",
            "`localhost` is a name, not an address",
            suggestion: "127.0.0.1:8443"),
        BrokenFile(
            "a listener's star in quotes",
            "127.0.0.1:8443",
            "▶'*:8443'",
            "has no address",
            suggestion: "0.0.0.0:8443"),
        BrokenFile(
            "a listener without a port",
            "127.0.0.1:8443",
            "▶127.0.0.1",
            "`127.0.0.1` has no port"),
        BrokenFile(
            "a listener's port 0",
            "127.0.0.1:8443",
            "▶127.0.0.1:0",
            "`0` is not a port"),
        BrokenFile(
            "a listener's port that is too large",
            "127.0.0.1:8443",
            "▶127.0.0.1:65536",
            "`65536` is not a port"),
        BrokenFile(
            "an IPv6 address without brackets",
            "127.0.0.1:8443",
            "▶'::1:8443'",
            "an IPv6 address is written in brackets",
            suggestion: "[::1]:8443"),
        BrokenFile(
            "a field that the message needs",
            "upstreams:\n",
            "strip_headers: [▶Content-Length]\nupstreams:\n",
            "cannot be removed"),
        BrokenFile(
            "a field that is no token",
            "upstreams:\n",
            "strip_headers: [▶'X User']\nupstreams:\n",
            "`X User` is not the name of a field"),
        BrokenFile(
            "a field named twice",
            "upstreams:\n",
            "strip_headers: [X-User, ▶x-user]\nupstreams:\n",
            "is listed twice"),
        BrokenFile(
            "a field of the gateway to be forwarded",
            "upstreams:\n",
            "forward_headers: [▶Attest-Device]\nupstreams:\n",
            "`Attest-Device` is the gateway's own"),
        BrokenFile(
            "a field to be forwarded that always is",
            "upstreams:\n",
            "forward_headers: [▶X-Request-Id]\nupstreams:\n",
            "`X-Request-Id` is not a field that is always removed or refused"),
        BrokenFile(
            "a field to be removed and forwarded",
            "upstreams:\n",
            "strip_headers: [X-Host]\nforward_headers: [▶X-Host]\nupstreams:\n",
            "`X-Host` is also among the `strip_headers`"),
        BrokenFile(
            "a port that is none",
            "    tls:",
            "    ports: [443, ▶0]\n    tls:",
            "0 is out of range"),
        BrokenFile(
            "an unusual name that can be read as a protected one",
            "upstream: records",
            "upstream: records\n    unusual_headers: [X.Custom, ▶X!Forwarded~For]",
            "a service can take `X!Forwarded~For` for `x-forwarded-for`"),
        BrokenFile(
            "an unusual name that can be read as one of the message",
            "upstream: records",
            "upstream: records\n    unusual_headers: [▶content_length]",
            "a service can take `content_length` for `content-length`"),
        BrokenFile(
            "an unusual name that can be read as one to be removed",
            "upstream: records",
            "upstream: records\n    unusual_headers: [▶X_User]\nstrip_headers: [X-User]",
            "a service can take `X_User` for `x-user`"),
        BrokenFile(
            attested: "an unusual name that can be read as one that proofs cover",
            "components: [x-location]",
            "components: [x-location]\n    unusual_headers: [▶X.Location]",
            "a service can take `X.Location` for `x-location`"),
        BrokenFile(
            "an ordinary name among the unusual ones",
            "upstream: records",
            "upstream: records\n    unusual_headers: [▶X-Custom]",
            "`X-Custom` has only letters, digits and `-`"),
        BrokenFile(
            "a log that might be a word",
            "upstreams:\n",
            "log: { access: ▶stdot }\nupstreams:\n",
            "found `stdot`",
            suggestion: "stdout"),
        BrokenFile(
            "a log in a form that is not there",
            "upstreams:\n",
            "log: { format: ▶jsn }\nupstreams:\n",
            "`jsn` is not a known value",
            suggestion: "json"),
        BrokenFile(
            "a log field that is not there",
            "upstreams:\n",
            "log: { fields: [path, ▶user-agent] }\nupstreams:\n",
            "`user-agent` is not a known value",
            suggestion: "user_agent"),
        BrokenFile(
            "a log field named twice",
            "upstreams:\n",
            "log: { fields: [path, query, ▶path] }\nupstreams:\n",
            "is listed twice"),
        BrokenFile(
            "a log of no request",
            "upstreams:\n",
            "log: { sample: ▶0 }\nupstreams:\n",
            "0 is out of range"),
        BrokenFile(
            "a sample that is a fraction",
            "upstreams:\n",
            "log: { sample: ▶0.1 }\nupstreams:\n",
            "found `0.1`"),
        BrokenFile(
            "a log of no refusal",
            "upstreams:\n",
            "log: { refusals_per_second: ▶0 }\nupstreams:\n",
            "0 is out of range"),
        BrokenFile(
            "a log level that is not there",
            "upstreams:\n",
            "log: { level: ▶warn }\nupstreams:\n",
            "`warn` is not a known value", suggestion: "warning"),
        BrokenFile(
            "tracing to nowhere",
            "upstreams:\n",
            "tracing: { ▶sample: 10 }\nupstreams:\n",
            "`endpoint` is missing"),
        BrokenFile(
            "spans that would leave the machine in the clear",
            "upstreams:\n",
            "tracing: { endpoint: ▶'http://10.0.0.1:4318' }\nupstreams:\n",
            "`http://10.0.0.1:4318` would be called unencrypted",
            suggestion: "https://10.0.0.1:4318"),
        BrokenFile(
            "a collector with the path that is appended",
            "upstreams:\n",
            "tracing: { endpoint: ▶'http://127.0.0.1:4318/v1/traces' }\nupstreams:\n",
            "`/v1/traces` would occur twice: it is appended",
            suggestion: "http://127.0.0.1:4318"),
        BrokenFile(
            "a service whose name would break out of JSON",
            "upstreams:\n",
            "tracing: { endpoint: 'http://127.0.0.1:4318', service_name: ▶'a\"b' }\nupstreams:\n",
            "is not a service name"),
        BrokenFile(
            "a denial URI without a scheme",
            "upstreams:\n",
            "denial_uri: ▶/denials#\nupstreams:\n",
            "is not the beginning of a URI"),
        BrokenFile(
            "a denial URI that would break out of JSON",
            "upstreams:\n",
            "denial_uri: ▶'https://example.org/\"'\nupstreams:\n",
            "has characters that a URI cannot contain"),
    ]
}
