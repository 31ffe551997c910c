"""Gateways that share one database."""

import shutil

from support.attested import OTHER_APP, ROUTES
from support.client import Client
from support.gateway import APP, BRIEF, Gateway

APPS = [{"id": APP, "environment": "simulator", "counter": "window 1024"}, {"id": OTHER_APP, "environment": "simulator", "counter": "strict"}]


class Sharing:
    """Starts gateways that have one secret."""

    def __init__(self, directory, pki, upstream, database):
        self.directory, self.pki, self.upstream, self.database = directory, pki, upstream, database
        self.started = []

    def start(self, **settings):
        directory = self.directory / f"gateway-{len(self.started)}"
        directory.mkdir()
        if self.started:
            shutil.copy(self.started[0].conf["registry"]["secret"], directory / "secret")
        registry = settings.pop("registry", {"postgresql": self.database.conf})
        made = Gateway(
            directory, self.pki, {"service": self.upstream.address}, ROUTES, apps=APPS, registry=registry, **settings)
        self.started.append(made)
        return made.start()

    def stop(self):
        for made in self.started:
            made.stop(BRIEF)


def at(gateway, phone):
    """The same phone, at another gateway."""
    return Client(gateway, phone.identity)
