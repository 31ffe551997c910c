"""Conf files with one mistake each, of those that operators make, and the files that such a conf file names."""

import time

from support.pki import CLIENT, openssl

# 2026-01-01T00:00:00Z.
STALE_SINCE = 1_767_225_600
SERVER = CLIENT.replace("clientAuth", "serverAuth")

# Right, and with a bit of everything. What it names lies beside it.
CONF = """\
listeners:
  - address: 127.0.0.1:8443
    tls:
      certificate: server.pem
      key: server.key
    clients:
      authorities: [gms-ca.pem]
      crls: [gms-ca.crl]
upstreams:
  records:
    servers: [127.0.0.1:9000]
    connections: 2048
    idle_timeout: 60s
  images:
    servers: [127.0.0.1:9001]
routes:
  - name: records
    host: records.example.org
    path: /
    content_limit: 1MiB
    upstream: records
  - name: images
    host: images.example.org
    path: /images
    methods: [GET, HEAD]
    require: device
    upstream: images
apps:
  - id: ABCDE12345.org.example.app
    environment: production
registry:
  path: registry.sqlite
  secret: challenge.secret
enrolment:
  address: 127.0.0.1:8444
  url: https://localhost:8444
  tls:
    certificate: server.pem
    key: server.key
  authority:
    certificate: gms-ca.pem
    key: gms-ca.key
  admission: open
administration:
  socket: administration.socket
  listeners:
    - address: 127.0.0.1:9464
      token_file: administration.token
limits:
  connections: 10000
log:
  access: stdout
"""


# The first route, and one above the second that requires less.
RECORDS = "    host: records.example.org\n    path: /\n    content_limit: 1MiB\n    upstream: records\n"
WEAKER = "    host: images.example.org\n    path: /\n    require: certificate\n    upstream: images\n"


# The end of the second route, which a policy may follow.
UNPOLICED = "    require: device\n    upstream: images\napps:\n"


def policed(*policies, points=(), policy="recent", require="device"):
    """The second route with a policy, and the sections with these lines behind it."""
    sections = "".join(
        f"{name}:\n" + "".join(f"  {line}\n" for line in lines)
        for name, lines in (("policies", policies), ("decision_points", points)) if lines)
    return UNPOLICED, f"    require: {require}\n    policy: {policy}\n    upstream: images\n{sections}apps:\n"


def asking(**changes):
    """A policy with a decision point of AuthZEN, whose settings are changed; None for one that is left out."""
    settings = {"kind": "authzen", "url": "http://127.0.0.1:8181", "path": "/access/v1/evaluation", **changes}
    lines = [f"  {name}: {value}" for name, value in settings.items() if value is not None]
    return policed("recent: { pdp: pdp }", points=["pdp:", *lines])


def make_files(directory, pki):
    """What the conf file names, and what it names in its place by mistake."""
    def put(name, content, mode=0o600):
        path = directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)

    hosts = "subjectAltName=DNS:records.example.org,DNS:images.example.org\n"
    server = pki.client("broken-server", issuer=pki.server_authority, extensions=SERVER + hosts)
    expired = pki.client("broken-expired", issuer=pki.server_authority, extensions=SERVER + hosts, start=-10, end=-3)
    early = pki.client("broken-early", issuer=pki.server_authority, extensions=SERVER + hosts, start=3, end=10)
    strange = pki.client("broken-strange", issuer=pki.server_authority, extensions=SERVER)
    phone = pki.client("broken-phone", extensions=CLIENT + hosts)
    other = pki.authority("broken-other")
    put("server.pem", server.certificate.read_bytes())
    put("server.key", server.key.read_bytes())
    put("gms-ca.pem", pki.gms.certificate.read_bytes())
    put("gms-ca.key", pki.gms.key.read_bytes())
    pki.crl(directory / "gms-ca.crl", pki.gms)
    put("administration.token", "x" * 40 + "\n")

    put("expired.pem", expired.certificate.read_bytes())
    put("expired.key", expired.key.read_bytes())
    put("early.pem", early.certificate.read_bytes())
    put("early.key", early.key.read_bytes())
    put("other.key", phone.key.read_bytes())
    put("open.key", server.key.read_bytes(), 0o644)
    put("strange.pem", strange.certificate.read_bytes())
    put("strange.key", strange.key.read_bytes())
    put("open-ca.key", pki.gms.key.read_bytes(), 0o640)
    put("empty.pem", "")
    put("notes.txt", "the certificate is on the other disk\n")
    put("phone.pem", phone.certificate.read_bytes())
    put("short.token", "secret\n")
    put("other-ca.pem", other.certificate.read_bytes())
    put("rsa-ca.pem", pki.authority("broken-rsa", kind="RSA-2048").certificate.read_bytes())
    # At a date of its own, which the message has.
    pki.crl(directory / "stale.crl", pki.gms, start=-4000, end=(STALE_SINCE + 0.5 - time.time()) / 86_400)
    pki.crl(directory / "other.crl", other)
    openssl("pkcs8", "-topk8", "-in", server.key, "-out", directory / "encrypted.key", "-passout", "pass:secret")
    (directory / "encrypted.key").chmod(0o600)
    openssl("x509", "-in", server.certificate, "-outform", "DER", "-out", directory / "server.der")
    openssl("pkcs12", "-export", "-in", server.certificate, "-inkey", server.key, "-passout", "pass:", "-out",
            directory / "server.p12")
    openssl("pkey", "-in", server.key, "-outform", "DER", "-out", directory / "key.der")
    openssl("req", "-new", "-key", server.key, "-subj", "/CN=request", "-out", directory / "request.pem")
    for name in ["key.der", "server.p12"]:
        (directory / name).chmod(0o600)
    put("cut.pem", server.certificate.read_bytes()[:-40])
    put("line.pem", server.certificate.read_bytes().replace(b"\n", b" "))
    put("line.key", server.key.read_bytes().replace(b"\n", b""))
    put("mislabelled.key", server.certificate.read_bytes().replace(b"CERTIFICATE", b"PRIVATE KEY"))


NGINX = """\
server {
    listen 8443 ssl;
    ssl_certificate server.pem;
    location / {
        proxy_pass http://127.0.0.1:9000;
    }
}
"""

ADMINISTRATION = CONF[CONF.index("administration:\n"):CONF.index("limits:\n")]

# By what is wrong: the piece of the file, and what stands in its place.
MISTAKES = {
    "a key misspelt": ("idle_timeout: 60s", "idle_timout: 60s"),
    "a section misspelt": ("upstreams:", "upstream:"),
    "a key in the wrong section": ("    idle_timeout: 60s", "    keep_alive: 60s"),
    "a tab": ("    idle_timeout: 60s", "\tidle_timeout: 60s"),
    "a line too far to the left": ("    idle_timeout: 60s", "   idle_timeout: 60s"),
    "a line too far to the right": ("    idle_timeout: 60s", "      idle_timeout: 60s"),
    "a list entry without its dash": ("  - name: images\n    host", "    name: images\n    host"),
    "a colon without a blank": ("idle_timeout: 60s", "idle_timeout:60s"),
    "a bracket that is not closed": ("servers: [127.0.0.1:9000]", "servers: [127.0.0.1:9000"),
    "a quote that is not closed": ("path: /images", 'path: "/images'),
    "a key twice": ("    idle_timeout: 60s", "    idle_timeout: 60s\n    connections: 10"),
    "an anchor": ("servers: [127.0.0.1:9000]", "servers: &servers [127.0.0.1:9000]"),
    "a duration without a unit": ("idle_timeout: 60s", "idle_timeout: 60"),
    "a duration as nginx writes it": ("idle_timeout: 60s", "idle_timeout: 1min"),
    "a size as nginx writes it": ("content_limit: 1MiB", "content_limit: 1m"),
    "a number with a separator": ("connections: 10000", "connections: 10_000"),
    "a number out of range": ("connections: 10000", "connections: 0"),
    "text for a list": ("servers: [127.0.0.1:9000]", "servers: 127.0.0.1:9000"),
    "a server without a port": ("servers: [127.0.0.1:9000]", "servers: [127.0.0.1]"),
    "a server as a URL": ("servers: [127.0.0.1:9000]", "servers: ['http://127.0.0.1:9000']"),
    "a server on another machine in clear": ("servers: [127.0.0.1:9000]", "servers: [10.0.0.7:9000]"),
    "a listener on a star": ("address: 127.0.0.1:8443", "address: '*:8443'"),
    "a listener by a name": ("address: 127.0.0.1:8443", "address: localhost:8443"),
    "a path with a slash at the end": ("path: /images", "path: /images/"),
    "a host with a port": ("host: images.example.org", "host: images.example.org:8443"),
    "a method in lower case": ("methods: [GET, HEAD]", "methods: [GET, head]"),
    "a level misspelt": ("require: device", "require: devices"),
    "targets that are none": ("    require: device", "    targets: lenient\n    require: device"),
    "a path character in itself": ("    require: device", "    path_characters: [';']\n    require: device"),
    "an encoded slash misspelt": ("    require: device", "    path_characters: [encoded_slash]\n    require: device"),
    "a forwarded field as it is sent": ("connections: 2048", "forwarded: [X-Forwarded-For]"),
    "a forwarded field that is not there": ("connections: 2048", "forwarded: [x-real-ip]"),
    "no forwarded field, as a word": ("connections: 2048", "forwarded: none"),
    "a client certificate in PEM": ("connections: 2048", "client_certificate: pem"),
    "a client certificate as a switch": ("connections: 2048", "client_certificate: true"),
    "a chain of a client certificate": ("connections: 2048", "client_certificate: rfc9440_with_chain"),
    "a client's field beside the gateway's": (
        "    servers: [127.0.0.1:9001]\n",
        "    servers: [127.0.0.1:9001]\n    forwarded: [x-forwarded-for]\nforward_headers: [X-Forwarded-For]\n"),
    "a page for everybody that every listener keeps from them": ("    require: device\n", "    require: nothing\n"),
    "an optional certificate as nginx calls it": (
        "      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      ssl_verify_client: optional\n"),
    "a demand misspelt": ("      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      require: option\n"),
    "a demand that is a yes": ("      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      require: true\n"),
    "a kind of key without a list": ("      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      keys: rsa2048\n"),
    "a kind of key as OpenSSL calls it": (
        "      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      keys: [prime256v1, RSA]\n"),
    "no kind of key": ("      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      keys: []\n"),
    "two smallest moduli": ("      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      keys: [rsa2048, rsa4096]\n"),
    "a usage misspelt": ("      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      usage: if_present\n"),
    "a route without an upstream": ("    require: device\n    upstream: images\n", "    require: device\n"),
    "a route to an upstream that is not there": ("upstream: images", "upstream: image"),
    "two routes for the same requests": (
        "    host: images.example.org\n    path: /images\n", "    host: records.example.org\n    path: /\n"),
    "two routes of one name": ("name: images", "name: records"),
    "two listeners at one address": ("address: 127.0.0.1:8444", "address: 127.0.0.1:8443"),
    "a proof without a registry": ("registry:\n  path: registry.sqlite\n  secret: challenge.secret\n", ""),
    "an app id without its prefix": ("id: ABCDE12345.org.example.app", "id: org.example.app"),
    "a passphrase in the file": ("    key: gms-ca.key\n", "    key: gms-ca.key\n    passphrase: correct horse\n"),
    "a token in the file": ("token_file: administration.token", "token: dGhpcyBpcyBhIHNlY3JldCB0b2tlbg"),
    "a certificate that is not there": ("certificate: server.pem\n      key", "certificate: sever.pem\n      key"),
    "a certificate that is empty": ("certificate: server.pem\n      key", "certificate: empty.pem\n      key"),
    "a certificate that is none": ("certificate: server.pem\n      key", "certificate: notes.txt\n      key"),
    "a certificate in DER": ("certificate: server.pem\n      key", "certificate: server.der\n      key"),
    "a key of another certificate": ("      key: server.key", "      key: other.key"),
    "a key that is encrypted": ("      key: server.key", "      key: encrypted.key"),
    "a CA without a certificate": ("authorities: [gms-ca.pem]", "authorities: [notes.txt]"),
    "a CA that is none": ("authorities: [gms-ca.pem]", "authorities: [phone.pem]"),
    "a list of another CA": ("crls: [gms-ca.crl]", "crls: [other.crl]"),
    "a key that everybody may read": ("      key: server.key", "      key: open.key"),
    "a CA key that others may read": ("key: gms-ca.key", "key: open-ca.key"),
    "a CA key of another CA": ("key: gms-ca.key", "key: other.key"),
    "a token that is short": ("token_file: administration.token", "token_file: short.token"),
    "a registry in a directory that is not there": ("path: registry.sqlite", "path: var/registry.sqlite"),
    "a database's CA without a certificate": (
        "  path: registry.sqlite\n",
        "  postgresql:\n    hosts: [database.internal]\n    tls:\n      authorities: notes.txt\n"),
    "a database's key of another certificate": (
        "  path: registry.sqlite\n",
        "  postgresql:\n    hosts: [database.internal]\n    tls:\n      authorities: gms-ca.pem\n"
        "      certificate: server.pem\n      key: other.key\n"),
    "one file for two purposes": ("secret: challenge.secret", "secret: registry.sqlite"),
    # What tired people write who have come from nginx, HAProxy or another file of YAML.
    "a file of nginx": (CONF, NGINX),
    "sections as of an ini file": (CONF, "[listeners]\naddress = 127.0.0.1:8443\n"),
    "an equals sign": ("    idle_timeout: 60s", "    idle_timeout = 60s"),
    "a comment without its sign": ("listeners:\n", "the gateway in Berlin\nlisteners:\n"),
    "a setting as nginx calls it": ("    path: /images", "    location: /images"),
    "another one": ("    upstream: images", "    proxy_pass: http://images"),
    "a listener as nginx writes it": ("  - address: 127.0.0.1:8443", "  - listen: 8443"),
    "a path as nginx writes it": ("path: /images", "path: ~ ^/images/.*$"),
    "quotes of a word processor": ("path: /images", "path: “/images”"),
    "a pattern for a host": ("host: images.example.org", "host: '*.example.org'"),
    "the same without quotes": ("host: images.example.org", "host: *.example.org"),
    "a list on the line of its key": ("servers: [127.0.0.1:9000]", "servers: - 127.0.0.1:9000"),
    "a list without commas": ("servers: [127.0.0.1:9000]", "servers: [127.0.0.1:9000 127.0.0.1:9001]"),
    "two commas": ("methods: [GET, HEAD]", "methods: [GET, , HEAD]"),
    "a bracket too many": ("servers: [127.0.0.1:9000]", "servers: [127.0.0.1:9000]]"),
    "braces without commas": (
        "    tls:\n      certificate: server.pem\n      key: server.key\n",
        "    tls: {certificate: server.pem key: server.key}\n"),
    "braces without blanks": (
        "    tls:\n      certificate: server.pem\n      key: server.key\n",
        "    tls: {certificate:server.pem, key:server.key}\n"),
    "a dash without a blank": ("  - name: images\n    host", "  -name: images\n   host"),
    "a key of an entry below its dash": ("  - name: images\n    host", "  - name: images\n  host"),
    "a line without a colon": ("    connections: 2048", "    connections"),
    "a blank that is none": ("    idle_timeout: 60s", "    idle_timeout:\u00a060s"),
    "a value with a colon": ("idle_timeout: 60s", "idle_timeout: 60s: for now"),
    "an apostrophe in quotes": ("path: /images", "path: 'patient's'"),
    "a backslash in quotes": ("certificate: server.pem\n      key", 'certificate: "certs\\server.pem"\n      key'),
    "a sign that begins no value": ("connections: 10000", "connections: @10000"),
    "a template that was not filled in": ("connections: 10000", "connections: {{ connections }}"),
    "a variable of a shell": ("certificate: server.pem\n      key", "certificate: ${CERTS}/server.pem\n      key"),
    "a secret in a variable of a shell": ("secret: challenge.secret", "secret: ${SECRET}"),
    "a conflict of two versions": (
        "limits:\n  connections: 10000\n",
        "limits:\n<<<<<<< HEAD\n  connections: 10000\n=======\n  connections: 20000\n>>>>>>> night\n"),
    "a fraction of a duration": ("idle_timeout: 60s", "idle_timeout: 1.5s"),
    "a duration of two units": ("idle_timeout: 60s", "idle_timeout: 1m30s"),
    "a fraction of a size": ("content_limit: 1MiB", "content_limit: 1.5MiB"),
    "a number in thousands": ("connections: 10000", "connections: 10k"),
    "one port for two listeners": ("address: 127.0.0.1:8444", "address: 0.0.0.0:8443"),
    "certificate and key exchanged": (
        "certificate: server.pem\n      key: server.key", "certificate: server.key\n      key: server.pem"),
    "a certificate for a key": ("      key: server.key", "      key: server.pem"),
    "a key in DER": ("      key: server.key", "      key: key.der"),
    "a bundle of certificate and key": ("certificate: server.pem\n      key", "certificate: server.p12\n      key"),
    "what the authority was sent": ("certificate: server.pem\n      key", "certificate: request.pem\n      key"),
    "a certificate that was cut off": ("certificate: server.pem\n      key", "certificate: cut.pem\n      key"),
    "a certificate on one line": ("certificate: server.pem\n      key", "certificate: line.pem\n      key"),
    "a key on one line": ("      key: server.key", "      key: line.key"),
    "a key in two places, wrong in the second": (
        "      crls: [gms-ca.crl]\n",
        "      crls: [gms-ca.crl]\n    hosts:\n      - names: [images.example.org]\n"
        "        tls: {certificate: strange.pem, key: server.key}\n        clients: {authorities: [gms-ca.pem]}\n"),
    "a certificate that is called a key": ("      key: server.key", "      key: mislabelled.key"),
    "a certificate for a revocation list": ("crls: [gms-ca.crl]", "crls: [gms-ca.pem]"),
    "a stricter route that is not there": (
        "    methods: [GET, HEAD]\n", "    stricter_below: [recrods]\n"),
    "a stricter route, misspelt": (RECORDS, WEAKER + "    stricter_below: [image]\n"),
    "no stricter route": ("    methods: [GET, HEAD]\n", "    stricter_below: []\n"),
    "a stricter route that is no list": ("    methods: [GET, HEAD]\n", "    stricter_below: records\n"),
    "a stricter route that is no name": ("    methods: [GET, HEAD]\n", "    stricter_below: ['a b']\n"),
    "a stricter route twice": ("    methods: [GET, HEAD]\n", "    stricter_below: [records, records]\n"),
    "a stricter route as a mapping": ("    methods: [GET, HEAD]\n", "    stricter_below: {records: accepted}\n"),
    "a field of the log, misspelt": ("  access: stdout\n", "  access: stdout\n  fields: [requested_hosts]\n"),
    "a log in a directory that is not there": ("access: stdout", "access: logs/access.log"),
    "a journal in a directory that is not there": (
        "  secret: challenge.secret\n", "  secret: challenge.secret\n  revocations: disk/revocations\n"),
    "a journal that is a directory": (
        "  secret: challenge.secret\n", "  secret: challenge.secret\n  revocations: .\n"),
    "metrics for everybody": ("      token_file: administration.token", "      level: metrics"),
    "a level that is not there": (
        "      token_file: administration.token", "      level: metric\n      token_file: administration.token"),
}

MISTAKES |= {
    "a health listener with a token": (
        "      token_file: administration.token", "      level: health\n      token_file: administration.token"),
    "a health listener with names": ("      token_file: administration.token", "      level: health\n      hosts: ['gateway:9464']"),
    "a health listener with TLS": (
        "      token_file: administration.token",
        "      level: health\n      tls: {certificate: server.pem, key: server.key}"),
    "no administration, in other words": (ADMINISTRATION, "administration: none\n"),
    "no administration, misspelt": (ADMINISTRATION, "administration: of\n"),
    "the socket without its key": (ADMINISTRATION, "administration: administration.socket\n"),
    "an administration without a socket": ("  socket: administration.socket\n", ""),
    "a list for the administration": (ADMINISTRATION, "administration: [administration.socket]\n"),
    "a counter rule misspelt": ("environment: production", "environment: production\n    counter: stict"),
    "a window without its size": ("environment: production", "environment: production\n    counter: window"),
    "a window that is too large": ("environment: production", "environment: production\n    counter: window 2048"),
    "a window as a number": ("environment: production", "environment: production\n    counter: 64"),
    "a window in brackets": ("environment: production", "environment: production\n    counter: [window, 64]"),
    "a level of health misspelt": ("      token_file: administration.token", "      level: healthy"),
    "no administration, as a truth value": (ADMINISTRATION, "administration: false\n"),
    "an administration of nothing": (ADMINISTRATION, "administration:\n"),
    "a delay in a mapping": ("limits:\n", "timeouts:\n  shutdown_delay: {seconds: 15}\nlimits:\n"),
    "a delay of nothing": ("limits:\n", "timeouts:\n  shutdown_delay:\nlimits:\n"),
    "a delay without a unit": ("limits:\n", "timeouts:\n  shutdown_delay: 15\nlimits:\n"),
    "a delay that is too long": ("limits:\n", "timeouts:\n  shutdown_delay: 2h\nlimits:\n"),
    "a delay misspelt": ("limits:\n", "timeouts:\n  shutdown_dely: 15s\nlimits:\n"),
    "a delay below zero": ("limits:\n", "timeouts:\n  shutdown_delay: -1s\nlimits:\n"),
    # Policies and decision points.
    "a policy that does not exist": policed("recent: { ios: { minimum_os: '17.4' } }", policy="resent"),
    "a system version with a letter": policed("recent: { ios: { minimum_os: '17.4b' } }"),
    "a policy with an empty section": policed("recent: { ios: {} }"),
    "a policy that allows everything": policed("recent: { simulate: true }"),
    "a condition on the other system": policed("recent: { ios: { key_protection: strongbox } }"),
    "conditions on a system of no app": policed("recent: { android: { minimum_patch_level: 2026-01 } }"),
    "a way of admission that is none": policed("recent: { admission: [tokens] }"),
    "an age of a minute too little": policed("recent: { attested_within: 59s }"),
    "a policy that simulates itself": policed("recent: { admission: [token], simulation: recent }"),
    "a simulation of a simulation": policed(
        "recent: { admission: [token], simulation: second }", "second: { admission: [open], simulation: third }",
        "third: { attested_within: 30d }"),
    "a policy where a certificate suffices": policed("recent: { ios: { minimum_os: '17.4' } }", require="certificate"),
    "a policy where nothing is required": policed("recent: { admission: [token] }", require="nothing"),
    "a decision point that does not exist": policed(
        "recent: { pdp: pdq }", points=["pdp: { kind: opa, url: 'http://127.0.0.1:8181', path: /v1/data/health/allow }"]),
    "a decision point elsewhere in clear": asking(url="http://pdp.internal:8181"),
    "a decision point without authorities": asking(url="https://pdp.internal:8181"),
    "authorities for plaintext": asking(tls="{ authorities: gms-ca.pem }"),
    "metadata in clear": asking(path=None),
    "OPA without a rule": asking(kind="opa", path=None),
    "a path that is no rule of OPA": asking(kind="opa", path="/health/allow"),
    "a mapping for OPA": asking(kind="opa", path="/v1/data/health/allow", mapping="{ action: { GET: read } }"),
    "a profile for AuthZEN": asking(profile="dsr"),
    "a secret for a decision point": asking(headers="[Authorization]"),
    "a fact that is none": asking(sends="[method, address]"),
    "a decision point that allows by failing": asking(on_failure="allow"),
    "a decision that may take a minute": asking(timeout="1m"),
    "a subject that is none": asking(mapping="{ subject: { type: user, id: person } }"),
    "a variable that no path has": asking(
        mapping="{ templates: [{ path: '/todos/{id}', resource: { type: todo, id: '{todo}' } }] }"),
}

# Warnings: the gateway starts all the same.
DOUBTS = {
    "a certificate that has expired": (
        "certificate: server.pem\n      key: server.key", "certificate: expired.pem\n      key: expired.key"),
    "a certificate whose time has not come": (
        "certificate: server.pem\n      key: server.key", "certificate: early.pem\n      key: early.key"),
    "a certificate of a client": (
        "certificate: server.pem\n      key: server.key", "certificate: phone.pem\n      key: other.key"),
    "a certificate of another host": (
        "certificate: server.pem\n      key: server.key", "certificate: strange.pem\n      key: strange.key"),
    "a server that nobody can resolve": (
        "servers: [127.0.0.1:9000]", "servers: [does-not-exist.invalid:9000]\n    plaintext: accepted"),
    "a weaker route above a stronger one": (
        "    host: records.example.org\n    path: /\n    content_limit: 1MiB\n    upstream: records\n",
        "    host: images.example.org\n    path: /images/7\n    upstream: images\n"),
    "one device's share of everything": ("connections: 2048", "connections: 10"),
    "a list that is stale": ("crls: [gms-ca.crl]", "crls: [stale.crl]"),
    "an upstream that no route uses": ("    upstream: images\n", "    upstream: records\n"),
    "a CA whose key is not accepted": (
        "authorities: [gms-ca.pem]\n      crls: [gms-ca.crl]", "authorities: [gms-ca.pem, rsa-ca.pem]"),
    "a CA of phones whose keys no listener accepts": (
        "      crls: [gms-ca.crl]\n", "      crls: [gms-ca.crl]\n      keys: [p384]\n"),
    "a CA that no listener trusts": ("authorities: [gms-ca.pem]\n      crls: [gms-ca.crl]", "authorities: [other-ca.pem]"),
    "a policy that no route uses": policed("recent: { admission: [token] }", "other: { admission: [open] }"),
    "a decision point that no policy uses": policed(
        "recent: { admission: [token] }",
        points=["pdp: { kind: opa, url: 'http://127.0.0.1:8181', path: /v1/data/health/allow }"]),
}
