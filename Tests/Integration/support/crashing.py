"""Phones that load a gateway until it is killed, and remember every proof they have made."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from support.client import Client, IncompleteResponse
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
from support.waiting import eventually

# What a client sees of a gateway that is killed.
CUT_OFF = (OSError, IncompleteResponse, ConnectionOver, StreamReset)

# Proofs of one phone in one round, and rounds of one crowd: so that no value leaves the 1024 of which the gateway knows whether
# they were used, and every refusal is `counter_replayed`.
PROOFS_PER_ROUND, ROUNDS_PER_CROWD = 70, 10


def kill_under_load(gateway, phone, upstream, challenge, least):
    """kill -9, while requests of the phone stream in one after the other. - Returns: all that were sent, the last perhaps cut off."""
    sent, stop = [], threading.Event()

    def load():
        try:
            with phone.connect() as client:
                while not stop.is_set():
                    data = phone.request(path="/a", nonce=challenge)
                    sent.append(data)
                    client.exchange(data)
        except (OSError, IncompleteResponse):
            pass
    thread = threading.Thread(target=load)
    before = len(upstream.requests)
    thread.start()
    eventually(lambda: len(upstream.requests) >= before + least, "requests to pass")
    gateway.crash()
    stop.set()
    thread.join()
    return sent


class Proof:
    """A request with its proof, and what its client heard of it."""

    def __init__(self, phone, data, target, counter):
        self.phone, self.data, self.target, self.counter = phone, data, target, counter
        self.is_sent = self.is_acknowledged = False


class Caller:
    """A phone under load: one kind of app, one version of HTTP, so many requests at once."""

    root, limit = "crash", PROOFS_PER_ROUND

    def __init__(self, phone, name, is_strict, version, width, challenge, chance):
        self.phone, self.name, self.is_strict, self.width = phone, name, is_strict, width
        self.version, self.challenge, self.chance = version, challenge, chance
        self.lock = threading.Lock()
        self.made = []
        # All of them answer for what one has let through.
        self.gateways = [phone.gateway]
        # It makes no proofs any more, so that those it has made stay within the window.
        self.is_retired = False

    def make(self):
        with self.lock:
            target = f"/{self.root}/{self.name}/{self.phone.counter + 1}"
            content = self.chance.randbytes(20) if self.chance.random() < 0.3 else None
            data = self.phone.request(
                "POST" if content else "GET", target, content=content, nonce=self.challenge)
            proof = Proof(self, data, target, self.phone.counter)
            self.made.append(proof)
        return proof

    def connect(self, version=None, gateway=None):
        client = HTTP2Client if (version or self.version) == 2 else Client
        return client(gateway or self.phone.gateway, self.phone.identity)

    def ways(self):
        """Each version of HTTP, at each gateway."""
        return [(version, gateway) for gateway in self.gateways for version in (1, 2)]

    def load(self, stop):
        """Sends until `stop`, or until nobody listens any more."""
        limit = len(self.made) + self.limit
        if self.version == 2:
            return self._load(stop, limit, self._exchange_streams)
        with ThreadPoolExecutor(self.width) as pool:
            for done in [pool.submit(self._load, stop, limit, self._exchange) for _ in range(self.width)]:
                done.result()

    def _load(self, stop, limit, exchange):
        try:
            with self.connect() as client:
                while not stop.is_set() and len(self.made) < limit:
                    exchange(client)
        except CUT_OFF:
            pass

    def _exchange(self, client):
        proof = self.make()
        proof.is_sent = True
        self._take(proof, client.exchange(proof.data))

    def _exchange_streams(self, client):
        begun = []
        for _ in range(self.width):
            proof = self.make()
            proof.is_sent = True
            begun.append((proof, client.begin(proof.data)))
        for proof, number in begun:
            self._take(proof, client.response(number))

    def _take(self, proof, response):
        assert response.status == 200, f"{proof.target} was refused: {response}"
        proof.is_acknowledged = True


class Crowd:
    """Six phones: of the strict app and of the one with a window, on HTTP/1.1 and on HTTP/2."""

    def __init__(self, attested, window_app, strict_app, number, challenge, chance, kind=Caller):
        kinds = [
            (window_app, False, 1, 3), (window_app, False, 1, 2), (window_app, False, 2, 8), (window_app, False, 2, 3),
            (strict_app, True, 1, 1), (strict_app, True, 2, 1),
        ]
        self.callers = [
            kind(attested.new_phone(app), f"{number}-{index}", is_strict, version, width, challenge, chance)
            for index, (app, is_strict, version, width) in enumerate(kinds)]

    def load_until(self, is_over, end):
        """All of them at once, until `is_over()` has returned; then `end` is called while they still send, or after."""
        stop = threading.Event()
        with ThreadPoolExecutor(len(self.callers)) as pool:
            running = [pool.submit(caller.load, stop) for caller in self.callers]
            try:
                is_over()
                end(stop)
            finally:
                stop.set()
            for done in running:
                done.result()


class Judgement:
    """Replays proofs, and knows what each answer has to be.

    `signs_again`: the gateway refuses challenges of earlier starts. So each proof is refused for its challenge first, and
    then its request is signed again with the same counter: that the counter is used too, only this shows.
    """

    def __init__(self, upstream, chance, signs_again=False):
        self.upstream, self.chance, self.signs_again = upstream, chance, signs_again
        self.answers = Counter()

    def forwarded(self):
        return Counter(request.target for request in list(self.upstream.requests))

    def replay(self, callers, proofs):
        """Every proof of those, in disorder, phones side by side, on either version of HTTP."""
        before = self.forwarded()
        shares = [[proof for proof in proofs if proof.phone is caller] for caller in callers]
        for share in shares:
            self.chance.shuffle(share)
        seeds = [self.chance.random() for _ in callers]
        with ThreadPoolExecutor(len(callers)) as pool:
            for done in list(pool.map(self._replay, callers, shares, seeds, [before] * len(callers))):
                self.answers += done
        after = self.forwarded()
        twice = [target for target, count in after.items() if count > 1]
        assert not twice, f"the service got twice: {twice}"
        lost = [proof.target for proof in proofs if proof.is_acknowledged and after[proof.target] != 1]
        assert not lost, f"acknowledged, and never seen by the service: {lost}"

    def _replay(self, caller, proofs, seed, before):
        answers = Counter()
        overtaken_by = max((p.counter for p in caller.made if before[p.target]), default=0)
        with ExitStack() as stack:
            clients = [stack.enter_context(caller.connect(*way)) for way in caller.ways()]
            for index, proof in enumerate(proofs):
                is_used = proof.is_acknowledged or before[proof.target] > 0
                place = int(seed * 1000 + index)
                if self.signs_again:
                    refused = verdict(clients[place % len(clients)].exchange(proof.data))
                    assert refused == "challenge_required", f"{proof.target} is of an earlier start, and now: {refused}"
                    answers["earlier start: challenge_required"] += 1
                    proof.data = caller.phone.again(proof.data)
                first = verdict(clients[place % len(clients)].exchange(proof.data))
                if is_used:
                    assert first == "counter_replayed", f"{proof.target} was used, and now: {first}"
                    kind = "used"
                elif proof.is_sent:
                    # On its way when the gateway was killed: used, overtaken, or good for this one time.
                    allowed = ("accepted", "counter_replayed", *(["counter_late"] if caller.is_strict else []))
                    assert first in allowed, f"{proof.target}: {first}"
                    kind = "unknown"
                else:
                    allowed = ["counter_late"] if caller.is_strict else ["accepted"]
                    if caller.is_strict and overtaken_by < proof.counter:
                        # None that was sent after it is known to have been used.
                        allowed.append("accepted")
                    assert first in allowed, f"{proof.target} was never sent, and now: {first}"
                    # Of a strict phone it depends on what was used before the kill; of the others all are accepted.
                    kind = "held back, strict" if caller.is_strict else "held back"
                answers[f"{kind}: {first}"] += 1
                # Where there is another gateway, at that one.
                if not is_used or len(caller.gateways) > 1:
                    again = verdict(clients[(place + 2) % len(clients)].exchange(proof.data))
                    allowed = ["counter_late" if first == "counter_late" else "counter_replayed"]
                    if caller.is_strict and kind == "unknown" and len(caller.gateways) > 1:
                        # One may have spent it without having it passed on, and the other know only that it was overtaken.
                        allowed = ["counter_late", "counter_replayed"]
                    assert again in allowed, f"{proof.target}: {first}, then {again}"
            # An honest one, each way.
            for client in [] if caller.is_retired else clients:
                proof = caller.make()
                proof.is_sent = True
                caller._take(proof, client.exchange(proof.data))
        return answers


def verdict(response):
    if response.status == 200:
        return "accepted"
    error = json.loads(response.content)["error"]
    assert response.status == 401, f"{response.status} {error}"
    return error
