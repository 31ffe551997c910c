"""Two gateways that share one database, each over a link of its own, and phones that go to both alternately."""

import base64
import json
import shutil
import ssl
import threading
import time
from collections import Counter

from support.attested import OTHER_APP
from support.client import Client, get
from support.crashing import CUT_OFF, Caller
from support.database_link import DatabaseLink
from support.enrolling_phone import EnrollingPhone, MTLSKey
from support.enrolment import Enrolling
from support.gateway import APP
from support.paths import PATIENCE
from support.phone import Phone
from support.pki import attestgate
from support.waiting import eventually

# Of a phone that finds nobody, or a store that does not serve, before it tries again.
PAUSE = 0.05


class Fleet:
    def __init__(self, directory, pki, upstream, database):
        self.directory, self.pki, self.upstream, self.database = directory, pki, upstream, database
        self.links = [DatabaseLink(database) for _ in range(2)]
        self.places, self.phones = [], 0
        try:
            for index, link in enumerate(self.links):
                # Proofs and challenges outlive the run: each refusal is to be the counter's.
                place = Enrolling(
                    directory / f"place-{index}", pki, upstream, like=self.places[0] if self.places else None,
                    app={"counter": "window 1024"}, apps=[{"id": OTHER_APP, "counter": "strict"}], workers=2,
                    proof={"max_age": "3600s", "challenge_life": "3600s"}, registry={"postgresql": link.conf})
                if self.places:
                    shutil.copy(
                        self.places[0].gateway.conf["registry"]["secret"], place.gateway.conf["registry"]["secret"])
                self.places.append(place)
                place.start()
            self.gateways = [place.gateway for place in self.places]
            self.probes = [self.new_phone(APP) for _ in self.gateways]
            self.challenge = self.probes[0].challenge()
        except BaseException:
            self.close()
            raise

    def close(self):
        try:
            for place in self.places:
                place.stop()
        finally:
            for link in self.links:
                link.close()

    def new_phone(self, app):
        """One that an operator registers, at the first gateway."""
        self.phones += 1
        return Phone(self.places[0].gateway, self.pki.phone(f"{self.directory.name}-phone-{self.phones}"), app)

    def await_service(self):
        """Until each gateway lets requests through."""
        for index, (gateway, probe) in enumerate(zip(self.gateways, self.probes)):
            def passes():
                try:
                    with Client(gateway, probe.identity) as client:
                        data = probe.request(path=f"/probe/{index}/{probe.counter + 1}", nonce=self.challenge)
                        response = client.exchange(data)
                except CUT_OFF:
                    return False
                assert response.status in (200, 503), response
                return response.status == 200
            eventually(passes, lambda: f"gateway {index} to serve\n{gateway.errors}")

    def await_requests(self, count):
        """Until so many more have passed."""
        target = len(self.upstream.requests) + count
        eventually(lambda: len(self.upstream.requests) >= target, "requests to pass")


class FleetCaller(Caller):
    """A phone under load that goes from one gateway to the other, and on to the next if one is not there."""

    root, limit = "fleet", 85

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # While something fails, the store may be given as the reason; afterwards nothing may.
        self.is_under_fire = False
        self.passed, self.refused = Counter(), 0

    def load(self, stop):
        self.is_under_fire = True
        super().load(stop)
        self.is_under_fire = False

    def _load(self, stop, limit, exchange):
        clients, turn = {}, self.chance.randrange(len(self.gateways))
        try:
            while not stop.is_set() and len(self.made) < limit:
                turn = (turn + 1) % len(self.gateways)
                gateway = self.gateways[turn]
                refused = self.refused
                try:
                    if turn not in clients:
                        clients[turn] = self.connect(gateway=gateway)
                    exchange(clients[turn])
                    self.passed[turn] += 1
                except CUT_OFF:
                    if turn in clients:
                        clients.pop(turn).close()
                    stop.wait(PAUSE)
                if self.refused > refused:
                    stop.wait(PAUSE)
        finally:
            for client in clients.values():
                client.close()

    def _take(self, proof, response):
        if self.is_under_fire and response.status == 503 and b'"store_unavailable"' in response.content:
            self.refused += 1
            return
        super()._take(proof, response)


class Wanderer:
    """A phone that enrols, makes requests, changes its key, and is revoked in the end: each at whichever gateway is there."""

    def __init__(self, fleet, number, chance):
        self.fleet, self.number, self.chance = fleet, number, chance
        first = fleet.places[0]
        self.phone = EnrollingPhone(first.service, first.authority, first.provider)
        self.identity, self.used, self.requests = None, None, []
        self.failure = None
        self.thread = threading.Thread(target=self._live, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def join(self):
        self.thread.join()
        if self.failure:
            raise self.failure

    def _live(self):
        try:
            self._enrol()
            self._use()
            self._bind()
            self._use()
            self._revoke()
        except BaseException as failure:
            self.failure = failure

    def _insist(self, ask):
        """Tries at either place, until it is answered for another reason than that somebody is down."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                response = ask(self.chance.choice(self.fleet.places))
                if response.status != 503:
                    return response
            except CUT_OFF as failure:
                response = failure
            assert time.monotonic() < deadline, f"refused for {PATIENCE} s: {response}"
            time.sleep(PAUSE)

    def _enrol(self):
        response = self._insist(lambda place: place.service.exchange(get("/nonce")))
        assert response.status == 200, response
        # The very same again, if no answer comes: a key is attested once in its life.
        body = self.phone.initialization(nonce=nonce_of(response))
        response = self._insist(lambda place: place.service.post("/instance-initialization", body))
        assert response.status == 204, response
        self._bind()

    def _bind(self):
        mtls = MTLSKey()

        def bind(place):
            response = place.service.exchange(get("/nonce"))
            if response.status != 200:
                return response
            self.used = nonce_of(response)
            token = self.phone.token(mtls, nonce=self.used)
            return place.service.post("/key-binding", {"assertion": token})
        response = self._insist(bind)
        name = f"wanderer-{self.number}-{self.phone.counter}"
        self.identity = self.phone.identity(self.fleet.directory, mtls, response, name)
        # The same nonce for a key of somebody's choice, at whichever gateway: used is used.
        again = self._insist(
            lambda place: place.service.post(
                "/key-binding", {"assertion": self.phone.token(MTLSKey(), nonce=self.used)}))
        assert again.status == 403, again

    def _use(self):
        for _ in range(4):
            response = self._insist(lambda place: self._request(place.gateway))
            assert response.status == 200, response

    def _request(self, gateway):
        requesting = self.phone.requesting(gateway, self.identity)
        target = f"/wanderer/{self.number}/{self.phone.counter + 1}"
        data = requesting.request(path=target, nonce=self.fleet.challenge)
        self.phone.counter = requesting.counter
        self.requests.append(data)
        with Client(gateway, self.identity) as client:
            return client.exchange(data)

    def _revoke(self):
        key = base64.b64encode(self.phone.key.key_id).decode()

        def revoked():
            gateway = self.chance.choice(self.fleet.gateways)
            return attestgate("device", "revoke", key, "--config", gateway.conf_path).returncode == 0
        eventually(revoked, "the device to be revoked")
        # Nobody has to hear of it for this: the database itself refuses the counter from now on.
        for gateway in self.fleet.gateways:
            try:
                self.is_refused_at(gateway)
            except CUT_OFF:
                # It is down.
                pass

    def is_refused_at(self, gateway):
        """Whether both a new request and a repeated one are refused because the phone was revoked."""
        refusals = 0
        for ask in (self._request, self._again):
            try:
                response = ask(gateway)
            except ssl.SSLError as failure:
                refusals += "CERTIFICATE_REVOKED" in str(failure)
                continue
            assert response.status in (401, 403, 503), response
            refusals += response.status == 403
        return refusals == 2

    def _again(self, gateway):
        with Client(gateway, self.identity) as client:
            return client.exchange(self.chance.choice(self.requests))


def nonce_of(response):
    return json.loads(response.content)["nonce"]
