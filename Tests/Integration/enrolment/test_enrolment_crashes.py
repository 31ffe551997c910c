"""kill -9 while phones enrol: a phone with an answer is enrolled, one without can continue, and no assertion is taken twice.

ATTESTGATE_SEED repeats a run's choices, ATTESTGATE_CRASHES makes it a longer one.
"""

import os
import random
import threading
import time

import pytest

from support import seeds
from support.crashing import CUT_OFF
from support.enrolling_phone import MTLSKey
from support.enrolment import Enrolling
from support.waiting import eventually

SEED = seeds.seed()
CRASHES = int(os.environ.get("ATTESTGATE_CRASHES", 3))
# Phones that enrol at the same time.
HANDS = 4


class Enrolment:
    """What one phone has sent, and what it was answered; None while it was not."""

    def __init__(self, enrolling):
        self.phone, self.mtls = enrolling.phone(), MTLSKey()
        self.initialization = self.token = None
        self.initialized = self.bound = None

    def post(self, path, body):
        return self.phone.service.post(path, body)

    def enrol(self):
        self.initialization = self.phone.initialization()
        self.initialized = self.post("/instance-initialization", self.initialization)
        self.token = self.phone.token(self.mtls)
        self.bound = self.post("/key-binding", {"assertion": self.token})

    def go_on(self, signs_again):
        """After the crash: what had no answer is sent once more as it was.

        `signs_again`: with a nonce of after the start, since the earlier ones are refused. An assertion has the same counter.
        """
        if self.initialization is None:
            return
        if self.initialized is None:
            if signs_again:
                self.initialization = self.phone.initialization()
            self.initialized = self.post("/instance-initialization", self.initialization)
        if signs_again and self.initialized.status == 403:
            # It was done, and its answer lost: the key is bound below all the same.
            assert b"the hardware key is already registered" in self.initialized.content
        else:
            assert self.initialized.status == 204, self.initialized
        if self.token is None:
            self.token = self.phone.token(self.mtls)
        elif signs_again:
            assert self.post("/key-binding", {"assertion": self.token}).status == 403
            self.token = self.phone.token(self.mtls, counter=self.phone.counter)
        again = self.post("/key-binding", {"assertion": self.token})
        if self.bound is not None:
            assert self.bound.status == 200, self.bound
            assert again.status == 403, "an assertion was taken twice"
        elif again.status != 200:
            # It was done, and its answer lost: with another assertion it has its certificate all the same.
            assert again.status == 403, again
            again = self.phone.bind(self.mtls)
            assert again.status == 200, again
        if self.bound is None:
            self.bound = again


@pytest.mark.parametrize("store", ["file", "database"])
def test_no_enrolment_is_half_done_however_often_the_gateway_is_killed(request, pki, own_upstream, tmp_path, store):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    registry = {"postgresql": request.getfixturevalue("database").conf} if store == "database" else {}
    enrolling = Enrolling(tmp_path / "enrolment", pki, own_upstream, registry=registry).start()
    try:
        for _ in range(CRASHES):
            enrolments, faults, stop = [], [], threading.Event()

            def work():
                try:
                    while not stop.is_set():
                        enrolments.append(Enrolment(enrolling))
                        enrolments[-1].enrol()
                except CUT_OFF:
                    pass
                except Exception as fault:
                    faults.append(fault)
            threads = [threading.Thread(target=work) for _ in range(HANDS)]
            for thread in threads:
                thread.start()
            eventually(lambda: faults or any(one.bound for one in list(enrolments)), "a phone to enrol")
            time.sleep(chance.uniform(0, 0.3))
            enrolling.gateway.crash()
            stop.set()
            for thread in threads:
                thread.join()
            assert faults == []
            enrolling.gateway.start()
            for enrolment in enrolments:
                enrolment.go_on(signs_again=store == "file")
            enrolled = [one for one in enrolments if one.bound]
            assert enrolled
            # Their certificates are those of active devices.
            for one in chance.sample(enrolled, min(4, len(enrolled))):
                phone = one.phone.requesting(enrolling.gateway, one.phone.identity(tmp_path, one.mtls, one.bound))
                with phone.connect() as client:
                    assert client.exchange(phone.request()).status == 200
    finally:
        enrolling.stop()
