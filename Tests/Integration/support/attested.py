"""A gateway whose routes ask for proofs, with what proves that nothing passed it."""

from contextlib import contextmanager

from support.challenges import ChallengeMaker
from support.denials import NothingForwarded
from support.gateway import Gateway
from support.phone import Phone
from support.platforms import APPS

OTHER_APP = "TEAMID1234.org.example.other"

ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof", "content_limit": 100_000},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device"},
    {"name": "certificate", "host": "localhost", "path": "/certificate"},
    {"name": "sentinel", "host": "localhost", "path": "/sentinel"},
    {"name": "location", "host": "localhost", "path": "/location", "require": "request-proof",
     "components": ["x-location"]},
    # More than a worker holds.
    {"name": "stream", "host": "localhost", "path": "/stream", "require": "request-proof", "body": "stream",
     "content_limit": "1GiB"},
    {"name": "stream-little", "host": "localhost", "path": "/stream/little", "require": "request-proof", "body": "stream",
     "content_limit": 1000},
    {"name": "other", "host": "localhost", "path": "/other", "require": "request-proof", "apps": [OTHER_APP]},
]


class Attested:
    def __init__(
        self, directory, pki, upstream, counter="strict", app=None, upstream_settings=None, platforms=("ios",), routes=ROUTES,
        arguments=(), **settings
    ):
        """`app`, `upstream_settings`: further members of the entries of the apps and of the service.

        `arguments`: further ones of `attestgate run`.
        `platforms`: whose apps there are; the phones are of the first, unless `phones_of` says otherwise.
        """
        self.pki, self.upstream = pki, upstream
        settings["apps"] = [
            *({"id": APPS[platform], "environment": "simulator", "counter": counter, **(app or {})}
              for platform in platforms),
            {"id": OTHER_APP, "environment": "simulator", "counter": "strict"}]
        service = {"servers": [upstream.address], **upstream_settings} if upstream_settings else upstream.address
        self.gateway = Gateway(directory, pki, {"service": service}, routes, **settings)
        self.gateway.arguments = list(arguments)
        self.gateway.start()
        if "path" in self.gateway.conf["registry"]:
            self.challenges = ChallengeMaker(self.gateway)
        self.phones = 0
        self.platform = platforms[0]
        # The first phone of each platform.
        self.first = {platform: self.new_phone(APPS[platform]) for platform in platforms}

    @property
    def phone(self):
        return self.first[self.platform]

    @contextmanager
    def phones_of(self, platform):
        before, self.platform = self.platform, platform
        yield
        self.platform = before

    def new_phone(self, app=None, **options):
        """A further phone, with a certificate of its own; of the present platform's app, unless another is given."""
        self.phones += 1
        identity = self.pki.phone(f"{self.gateway.directory.name}-phone-{self.phones}")
        return Phone(self.gateway, identity, app or APPS[self.platform], **options)

    def nothing_forwarded(self, phone=None):
        """`phone`: who sends the request that passes, if not the first phone."""
        return NothingForwarded(self.gateway, self.upstream, (phone or self.phone).identity)

    @contextmanager
    def nothing_forwarded_at_all(self):
        """The same where no request can pass: once all were answered with a denial, none is under way."""
        before = self.upstream.byte_count
        yield
        assert self.upstream.byte_count == before
