"""The secret of challenges is changed at two gateways, in the order that docs/operations/postgresql.md gives, under load: nobody
who is honest is refused at any step."""

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

from support.client import get
from support.denials import assert_denied
from support.phone import Phone, challenge_of
from support.pki import attestgate
from support.sharing import at
from support.waiting import eventually

PHONES = 4


class Visitor:
    """A phone that takes challenges from either gateway, and uses them at both."""

    def __init__(self, gateways, phone):
        self.gateways, self.phone = gateways, phone
        self.challenges = []
        self.rounds = 0

    def take(self, index):
        with at(self.gateways[index], self.phone) as client:
            self.challenges.append(challenge_of(client.exchange(get("/.well-known/attestgate/challenge"))))

    def visit(self, stop):
        """With the latest challenge of each gateway, and the oldest that is still to be good."""
        while not stop.is_set():
            for index in (0, 1):
                self.take(index)
            for challenge in {*self.challenges[:1], *self.challenges[-2:]}:
                for gateway in self.gateways:
                    with at(gateway, self.phone) as client:
                        response = client.exchange(self.phone.request(path="/visit", nonce=challenge))
                    assert response.status == 200, response
            self.rounds += 1


def rewrite(gateway, change):
    path = gateway.conf["registry"]["secret"]
    with open(path) as file:
        lines = change(file.read().splitlines())
    with open(path, "w") as file:
        file.write("".join(line + "\n" for line in lines))
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr


def place_of(lines):
    return next(index for index, line in enumerate(lines) if line.startswith("challenge "))


def test_the_secret_is_rotated_at_both_gateways_without_a_refusal(start_sharing, pki):
    gateways = [start_sharing(workers=2) for _ in range(2)]
    visitors = [Visitor(gateways, Phone(gateways[0], pki.phone(f"rotation-{index}"))) for index in range(PHONES)]
    before = open(gateways[0].conf["registry"]["secret"]).read().splitlines()
    old = before[place_of(before)]
    new = f"challenge {int(old.split()[1]) + 1} {secrets.token_hex(32)}"

    def below(lines):
        place = place_of(lines) + 1
        return lines[:place] + [new] + lines[place:]

    def above(lines):
        lines = [line for line in lines if line != new]
        place = place_of(lines)
        return lines[:place] + [new] + lines[place:]

    def removed(lines):
        return [line for line in lines if line != old]
    stop = threading.Event()
    with ThreadPoolExecutor(PHONES) as pool:
        running = [pool.submit(visitor.visit, stop) for visitor in visitors]

        def go_on(rounds):
            targets = [visitor.rounds + rounds for visitor in visitors]
            eventually(
                lambda: any(done.done() for done in running)
                or all(visitor.rounds >= target for visitor, target in zip(visitors, targets)), "visits")
        try:
            go_on(2)
            for step in (below, above):
                for gateway in gateways:
                    rewrite(gateway, step)
                    go_on(2)
            # Stands for a wait of `proof.challenge_life`: previous challenges have ended, or, here, nobody uses them any more.
            first = [visitor.challenges[0] for visitor in visitors]
            for visitor in visitors:
                visitor.challenges[:] = visitor.challenges[-2:]
            go_on(2)
            for gateway in gateways:
                rewrite(gateway, removed)
                go_on(2)
        finally:
            stop.set()
        for done in running:
            done.result()
    print(f"rounds of visits: {[visitor.rounds for visitor in visitors]}")
    for visitor, challenge in zip(visitors, first):
        for gateway in gateways:
            with at(gateway, visitor.phone) as client:
                data = visitor.phone.request(path="/late", nonce=challenge)
                assert_denied(gateway, client.exchange(data), "challenge_required", 401)
