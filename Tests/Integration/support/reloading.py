"""Reloads of the configuration, and clients that must not notice them."""

import threading

from support.client import Client, IncompleteResponse, get, post
from support.pki import attestgate


def reload(gateway):
    return attestgate("reload", "--config", gateway.conf_path)


def revoke_and_reload(gateway, lists, *identities):
    lists.revoke(*identities)
    done = reload(gateway)
    assert done.returncode == 0, done.stderr


class Load:
    """Clients that ask one after the other on kept and on new connections; whatever goes wrong is kept."""

    def __init__(self, gateway, phone, count=6):
        self.gateway, self.phone, self.faults, self.answered = gateway, phone, [], 0
        self.stop, self.is_draining, self.has_drained = threading.Event(), threading.Event(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=[n]) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        while not self.stop.is_set():
            began_after = self.has_drained.is_set()
            try:
                with Client(self.gateway, self.phone) as client:
                    # Some connections are short, some last.
                    for _ in range(3 if number % 2 else 200):
                        if self.stop.is_set():
                            return
                        data = post("/a", b"x" * 2000) if number % 3 else get("/a")
                        response = client.exchange(data)
                        if response.status != 200:
                            self.faults.append(response)
                        self.answered += 1
                        if response.values("connection") == ["close"]:
                            break
            except Exception as fault:  # any of them is a finding
                # But for a connection the old process closed while a request was on its way: a client sends it again then.
                is_old = self.is_draining.is_set() and not began_after
                if not (is_old and isinstance(fault, (IncompleteResponse, OSError))):
                    self.faults.append(fault)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert self.faults == [], self.faults[:5]
