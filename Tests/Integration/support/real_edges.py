"""nginx, HAProxy, Envoy, Caddy and Traefik that terminate the phones' TLS, with the configurations of docs/adoption/edges.

Each is a proxy of its page; a test may change what its configuration says."""

import json
import os
import shutil
import sys

import yaml

from support.documented import blocks
from support.edge import FIELDS, edge_authority, edge_identity
from support.enrolling_phone import EnrolmentAddress, EnrollingPhone, MTLSKey
from support.enrolment import Enrolling
from support.load_balancers import PATH, STREAM_MODULE, OtherProxy
from support.paths import REPOSITORY
from support.ports import uncommon_port

sys.path += [path for path in [str(REPOSITORY / "Tests"), str(REPOSITORY / "bench")] if path not in sys.path]
import preparation  # noqa: E402

PAGE = REPOSITORY / "docs" / "adoption" / "edges.md"
ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
    {"name": "certificate", "host": "localhost", "path": "/certificate", "require": "certificate"},
    {"name": "chat", "host": "localhost", "path": "/chat", "require": "certificate", "websocket": "allowed"},
]


def files_of(page):
    """The files that a page has."""
    return {block.file: block.text for block in blocks(page) if block.file}


class EdgedGateway(Enrolling):
    """A gateway that enrols, with the settings of docs/adoption/edges.md. Its phones are behind the proxy that is set as `edge`."""

    def __init__(self, directory, pki, upstream, kind, **listener_settings):
        super().__init__(directory, pki, upstream)
        self.edge = None
        conf, documented = self.gateway.conf, yaml.safe_load(files_of(PAGE)["attestgate.yaml"])
        listener = documented["listeners"][0]
        listener["clients"]["authorities"] = [str(edge_authority(pki).certificate)]
        listener["forwarded_certificate"].update(
            format=kind.form, authorities=[str(pki.gms.certificate), str(pki.root.certificate)])
        conf["listeners"][0].update({name: listener[name] for name in ("protocols", "clients", "forwarded_certificate")})
        conf["listeners"][0].update(listener_settings)
        conf["listeners"][0] = {name: setting for name, setting in conf["listeners"][0].items() if setting is not None}
        if kind.relays_enrolment:
            conf["enrolment"]["proxy_protocol"] = {"from": ["127.0.0.1"]}
        conf["routes"] = [{"upstream": "service", **route} for route in ROUTES]
        conf["upstreams"]["service"] = {"servers": [upstream.address], "client_certificate": "rfc9440"}

    def new_phone(self):
        """A phone that has enrolled through the proxy, and whose requests go there."""
        enrolling = EnrollingPhone(EnrolmentAddress(self.pki, self.edge.enrolment_port), self.authority, self.provider)
        mtls = MTLSKey()
        name = f"enrolled-{mtls.thumbprint[:8]}"
        identity = enrolling.identity(self.directory, mtls, enrolling.enrol(mtls), name)
        phone = enrolling.requesting(self.edge, identity)
        phone.number = json.loads(self.gateway.device_command("show", "--json", phone.key.key_id.hex()))["device"]
        return phone


class Edge(OtherProxy):
    """A proxy with the files of its page. Has a further port for enrolment."""

    name = form = ""
    # Whether it passes enrolment on by TCP.
    relays_enrolment = True
    keeps_semicolons = True
    # How the gateway takes it that a phone has no certificate.
    absent = ("certificate_required", 403)
    # How the gateway takes what `altering` does to a request.
    altered = ("body_digest_mismatch", 400)
    # Texts of the files that another one replaces, for a proxy that asks phones for no certificate, that sends other paths, or other
    # content: of Authorization, where its configuration can change no content.
    optional = rewriting = altering = None
    # For a proxy that speaks HTTP/2 with the gateway, if that does.
    speaking_http2 = None

    def __init__(self, directory, gateway, change=()):
        super().__init__(directory, gateway)
        self.enrolment_port = uncommon_port()
        self._lay_out(gateway, dict(change))
        self.run(self.name, self.command(), XDG_DATA_HOME=str(directory), XDG_CONFIG_HOME=str(directory))

    def connect_to_all(self):
        super().connect_to_all()
        # Traefik reads the second of its files later.
        EnrolmentAddress(self.pki, self.enrolment_port).connect().close()

    def _lay_out(self, gateway, change):
        pki, own = self.pki, edge_identity(self.pki)
        copies = {
            "server.pem": pki.server_certificate, "server.key": pki.server_key, "edge.pem": own.certificate, "edge.key": own.key,
            "gateway-ca.pem": pki.server_ca, "gms-ca.pem": pki.gms.certificate}
        # HAProxy finds keys by the names of certificates.
        copies |= {"server.pem.key": pki.server_key, "edge.pem.key": own.key}
        for name, source in copies.items():
            shutil.copy(source, self.directory / name)
        places = self.places(gateway)
        for name, text in files_of(PAGE.parent / "edges" / f"{self.name}.md").items():
            for old, new in places.items():
                text = text.replace(old, new)
            for old in [old for old in change if old in text]:
                text = text.replace(old, change.pop(old))
            (self.directory / name).write_text(text)
        assert change == {}, f"the page of {self.name} does not have it"

    def places(self, gateway):
        """The addresses and names of the pages, and those here."""
        enrolment = gateway.service.port
        return {
            "10.0.0.5:8443": f"127.0.0.1:{gateway.gateway.port}", "10.0.0.5:8444": f"127.0.0.1:{enrolment}",
            "10.0.0.1:443": f"127.0.0.1:{self.port}", "10.0.0.1:8444": f"127.0.0.1:{self.enrolment_port}",
            "10.0.0.1": "127.0.0.1", "gateway.internal": "localhost", "records.example.org": "localhost",
            "enrol.example.org": "localhost"}

    @property
    def field(self):
        return FIELDS[self.form]

    @property
    def program(self):
        """Debian's, or PyPI's."""
        found = shutil.which(self.name, path=f"{PATH}{os.pathsep}{preparation.ENVIRONMENT / 'bin'}")
        assert found, f"{self.name} is not installed: scripts/install-packages"
        return found


class Nginx(Edge):
    name, form = "nginx", "pem-urlencoded"
    optional = {"ssl_verify_client on": "ssl_verify_client optional"}
    rewriting = {"location / {": "location / { rewrite ^ /other break;"}
    altering = {"location / {": 'location / { proxy_set_body "altered";'}

    def places(self, gateway):
        built_in = {} if STREAM_MODULE.exists() else {f"load_module {STREAM_MODULE};": ""}
        return {**built_in, **super().places(gateway)}

    def command(self):
        # As root, nginx would serve as a user who may not read the folder.
        user = "user root; " if os.geteuid() == 0 else ""
        return [self.program, "-p", self.directory, "-c", "nginx.conf", "-e", "errors", "-g", f"{user}daemon off; pid nginx.pid;"]


class LocalNginx(Nginx):
    """Reaches the gateway through a Unix socket."""

    def places(self, gateway):
        return {
            "server 10.0.0.5:8443;": f"server {gateway.gateway.conf['listeners'][0]['address']};",
            "https://gateway": "http://gateway", **super().places(gateway)}


class HAProxy(Edge):
    name, form = "haproxy", "der-base64"
    optional = {"ca-file gms-ca.pem verify required": "ca-file gms-ca.pem verify optional"}
    rewriting = {"default_backend gateway": "http-request set-path /other\n  default_backend gateway"}
    altered = ("proof_invalid", 401)
    altering = {"default_backend gateway": 'http-request set-header Authorization "Bearer other"\n  default_backend gateway'}

    def command(self):
        return [self.program, "-db", "-f", "haproxy.cfg"]


class Envoy(Edge):
    name, form = "envoy", "xfcc"
    optional = {"require_client_certificate: true": "require_client_certificate: false"}
    speaking_http2 = {"http_protocol_options: {}": "http2_protocol_options: {}"}
    rewriting = {"route: { cluster: gateway,": "route: { prefix_rewrite: /other, cluster: gateway,"}
    altering = {"http_filters:\n": """http_filters:
                  - name: alter
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
                      default_source_code:
                        inline_string: |
                          function envoy_on_request(request) request:body():setBytes("altered") end
"""}

    def places(self, gateway):
        def written(address, port):
            return f"address: {address}, port_value: {port} "

        own, there = "127.0.0.1", "127.0.0.1"
        return {
            written("10.0.0.5", 8443): written(there, gateway.gateway.port),
            written("10.0.0.5", 8444): written(there, gateway.service.port),
            written("10.0.0.1", 443): written(own, self.port), written("10.0.0.1", 8444): written(own, self.enrolment_port),
            **super().places(gateway)}

    @property
    def program(self):
        return preparation.find_envoy()

    def command(self):
        return [
            self.program, "--config-path", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]


class Caddy(Edge):
    name, form = "caddy", "der-base64"
    relays_enrolment = False
    speaking_http2 = {}
    # It sends the name of what has no value.
    absent = ("certificate_invalid", 400)
    altered = ("proof_invalid", 401)
    optional = {"mode require_and_verify": "mode verify_if_given"}
    altering = {"\t\tflush_interval -1": '\t\tflush_interval -1\n\t\theader_up Authorization "Bearer other"'}
    rewriting = {"\treverse_proxy https://127.0.0.1": "\trewrite * /other\n\treverse_proxy https://127.0.0.1"}

    def places(self, gateway):
        return {
            "records.example.org:443": f"localhost:{self.port}", "enrol.example.org:8444": f"localhost:{self.enrolment_port}",
            **super().places(gateway)}

    def command(self):
        return [self.program, "run", "--config", "Caddyfile", "--adapter", "caddyfile"]


class Traefik(Edge):
    name, form = "traefik", "traefik"
    keeps_semicolons = False
    speaking_http2 = {}
    altered = ("proof_invalid", 401)
    optional = {"RequireAndVerifyClientCert": "VerifyClientCertIfGiven"}
    altering = {
        "middlewares: [certificate]": "middlewares: [certificate, other]",
        "  middlewares:\n": "  middlewares:\n    other: { headers: { customRequestHeaders: { Authorization: Bearer other } } }\n"}
    rewriting = {
        "middlewares: [certificate]": "middlewares: [certificate, other]",
        "  middlewares:\n": "  middlewares:\n    other: { replacePath: { path: /other } }\n"}

    def command(self):
        return [self.program, "--configfile=traefik.yaml"]


EDGES = {kind.name: kind for kind in (Nginx, HAProxy, Envoy, Caddy, Traefik)}
