"""Health services that speak TLS: their own authority, and what the gateway is configured with for them."""

import ssl
import warnings

from support.pki import CLIENT, SERVER
from support.recording_upstream import RecordingUpstream


def names(*entries):
    """Extensions of a server's certificate for these names: DNS:localhost."""
    return SERVER.split("subjectAltName")[0] + (f"subjectAltName={','.join(entries)}\n" if entries else "")


class Services:
    def __init__(self, pki):
        self.pki = pki
        self.authority = pki.authority("services")
        self.strangers = pki.authority("strangers")
        # Of the gateway, as services know it.
        self.clients = pki.authority("services-clients")
        self.gateway = pki.client("gateway", subject="/CN=the gateway", issuer=self.clients, extensions=CLIENT)
        self.ordinary = self.certificate("service")

    def certificate(self, name, extensions=SERVER, issuer=None, **options):
        return self.pki.client(
            f"service-{name}", issuer=issuer or self.authority, extensions=extensions, **options)

    def context(self, identity=None, clients=False, maximum=None, weak=False):
        """`clients`: whether they must have certificates of their authority."""
        identity = identity or self.ordinary
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            # That some versions are not to be used is what tests are about.
            warnings.simplefilter("ignore", DeprecationWarning)
            if weak:
                context.set_ciphers("DEFAULT@SECLEVEL=0")
                context.minimum_version = ssl.TLSVersion.TLSv1
            if maximum:
                context.maximum_version = maximum
        context.load_cert_chain(identity.certificate, identity.key)
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.clients.certificate)
        return context

    def settings(self, *servers, tls=(), **settings):
        """An upstream of the conf file that speaks TLS with these servers, a name or a RecordingUpstream each."""
        servers = [server if isinstance(server, str) else server.address for server in servers]
        return {
            "servers": servers, "tls": {"authorities": str(self.authority.certificate), **dict(tls)}, **settings}

    @property
    def our_certificate(self):
        return {"certificate": str(self.gateway.certificate), "key": str(self.gateway.key)}

    def start(self, identity=None, host="127.0.0.1", **options):
        return RecordingUpstream(tls=self.context(identity, **options), host=host)
