"""Requests while certificates change: good clients notice nothing, and bad ones pass at no moment after a reload."""

import json
import ssl
import threading
from collections import Counter
from dataclasses import dataclass

import pytest

from support.client import Client, IncompleteResponse, ended, get, post, tls_context
from support.exposition import ask, scrape
from support.pki import Identity
from support.waiting import eventually

STEPS, REQUESTS = 24, 3000


@dataclass(frozen=True, eq=False)
class Served:
    """What is served from the end of one reload to the beginning of the next."""

    admitted: frozenset
    # In DER.
    certificate: bytes


class Files:
    """What the listener reads, and what it may be: with and without the visitors' CA, with and without the suspect on the list."""

    def __init__(self, directory, pki):
        self.directory, self.pki = directory, pki
        self.visitors = pki.authority("load-visitors")
        self.suspect, self.visitor = pki.phone("load-suspect"), pki.client("load-visitor", issuer=self.visitors)
        self.servers = [pki.server(f"load-server-{n}") for n in range(3)]
        self.lists = {
            (suspect, visitors): pki.crl(directory / f"list-{suspect}-{visitors}", authority, revoked).read_text()
            for suspect, visitors, authority, revoked in [
                (True, False, pki.gms, ()), (False, False, pki.gms, [(self.suspect, "keyCompromise")]),
                (None, True, self.visitors, ())]}
        self.certificate, self.key = directory / "server.pem", directory / "server.key"
        self.authorities, self.crl = directory / "authorities.pem", directory / "lists.crl"
        self.server, self.admitted = 0, {"suspect", "visitor"}
        self.write()

    def put(self, path, text):
        beside = path.with_suffix(".new")
        beside.touch(0o600)
        beside.write_text(text)
        beside.replace(path)

    def write(self):
        """- Returns: what is served once these are."""
        server, has_visitors = self.servers[self.server], "visitor" in self.admitted
        self.put(self.certificate, server.certificate.read_text())
        self.put(self.key, server.key.read_text())
        authorities = [self.pki.gms, *([self.visitors] if has_visitors else [])]
        self.put(self.authorities, "".join(authority.certificate.read_text() for authority in authorities))
        lists = self.lists[("suspect" in self.admitted, False)] + (self.lists[(None, True)] if has_visitors else "")
        self.put(self.crl, lists)
        return Served(frozenset(self.admitted), ssl.PEM_cert_to_DER_cert(server.certificate.read_text()))

    def break_one(self, number):
        """One file that is no good, among good ones. - Returns: what the gateway says of it."""
        broken, text, reason = [
            (self.crl, self.crl.read_text()[:-200], "cannot read revocation list"),
            (self.authorities, "no certificate\n", "cannot find a certificate"),
            (self.key, self.servers[(self.server + 1) % 3].key.read_text(), "cannot use the server key"),
        ][number % 3]
        self.put(broken, text)
        return reason


class Clients:
    """Clients that connect while files change, each on a thread: what they saw that they should not have is kept."""

    def __init__(self, gateway, files, phone):
        self.gateway, self.files = gateway, files
        self.stop, self.faults, self.counts = threading.Event(), [], Counter()
        # Nil while a reload is in progress: then either is right.
        self.served = None
        self.refused = set()
        runs = [(self.honest, phone, 1), (self.honest, phone, 40), (self.honest, phone, 100), (self.resuming, phone),
                (self.wandering, "suspect", files.suspect, "CERTIFICATE_REVOKED"),
                (self.wandering, "visitor", files.visitor, "UNKNOWN_CA")]
        self.threads = [threading.Thread(target=self.run, args=run) for run in runs]

    def start(self, served):
        self.served = served
        for thread in self.threads:
            thread.start()

    def run(self, body, *arguments):
        try:
            identity = next(argument for argument in arguments if isinstance(argument, Identity))
            context = tls_context(self.gateway.pki, identity)
            while not self.stop.is_set():
                body(context, *arguments)
        except Exception as fault:  # any of them is a finding
            self.faults.append(fault)

    def connect(self, identity, context, session=None):
        """- Returns: a connection whose server has shown the certificate that is served now."""
        before = self.served
        client = Client(self.gateway, identity, context=context, session=session)
        shown = client.socket.getpeercert(binary_form=True)
        if before is not None and before is self.served and shown != before.certificate:
            self.faults.append("another certificate than the one that is served")
        return client

    def exchange(self, client, number):
        response = client.exchange(post("/good", b"x" * 2000) if number % 3 else get("/good"))
        assert response.status == 200, response
        self.counts["good"] += 1

    # Who is always good.

    def honest(self, context, identity, requests):
        with self.connect(identity, context) as client:
            for number in range(requests):
                if self.stop.is_set():
                    break
                self.exchange(client, number)

    def resuming(self, context, identity):
        session = None
        while not self.stop.is_set():
            with self.connect(identity, context, session) as client:
                self.exchange(client, 0)
                self.counts["good, resumed"] += client.socket.session_reused
                session = client.socket.session
                client.leave()

    # Who is good at times.

    def wandering(self, context, name, identity, alert):
        session, number = None, 0
        while not self.stop.is_set():
            number += 1
            before = self.served
            outcome, kept = self.attempt(context, identity, session if number % 2 else None, f"/{name}/{number}", alert)
            session = kept or session
            self.counts[name, outcome] += 1
            if before is None or before is not self.served:
                continue
            expected = "passed" if name in before.admitted else "refused"
            if outcome.split(",")[0] != expected:
                self.faults.append(f"{name} was {outcome}, not {expected}")

    def attempt(self, context, identity, session, path, alert):
        """- Returns: what became of it, and the session to resume if it passed."""
        try:
            with Client(self.gateway, identity, context=context, session=session) as client:
                response = client.exchange(get(path))
                assert response.status == 200, response
                outcome, kept = "passed, resumed" if client.socket.session_reused else "passed", client.socket.session
                try:
                    client.leave()
                except OSError:
                    # A reload has ended the connection.
                    kept = None
                return outcome, kept
        except ssl.SSLError as error:
            if alert not in str(error.reason):
                return f"cut off: {error}", None
            self.refused.add(path)
            return "refused", None
        except (OSError, IncompleteResponse) as error:
            return f"cut off: {error}", None

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def files(tmp_path, pki):
    return Files(tmp_path, pki)


@pytest.fixture
def gateway(start_gateway, own_upstream, files):
    gateway = start_gateway({"service": own_upstream.address}, workers=2, clients={
        "authorities": [str(files.authorities)], "crls": [str(files.crl)]})
    gateway.conf["listeners"][0]["tls"].update(certificate=str(files.certificate), key=str(files.key))
    gateway.write_conf()
    assert ask(gateway, "/reload", "POST")[0] == 200
    return gateway


def test_thousands_of_requests_run_through_changes_of_cas_lists_and_certificates(gateway, files, own_upstream, phone):
    clients = Clients(gateway, files, phone)
    generation, broken = json.loads(ask(gateway, "/status")[2])["generation"], 0
    clients.start(files.write())
    contexts = {"suspect": tls_context(gateway.pki, files.suspect), "phone": tls_context(gateway.pki, phone)}
    try:
        for step in range(STEPS):
            opened = None
            if "suspect" in files.admitted:
                opened = Client(gateway, files.suspect, context=contexts["suspect"])
                assert opened.exchange(get("/opened")).status == 200
            # One thing at a time, or all at once. Without a change of CAs or certificate only the list bars a session.
            if step % 4 in (0, 3):
                files.admitted ^= {"suspect"}
            if step % 4 in (1, 3):
                files.admitted ^= {"visitor"}
            if step % 4 in (2, 3):
                files.server = (files.server + 1) % 3
            if step % 4 == 3:
                served, clients.served = clients.served, None
                good = {path: path.read_text() for path in (files.certificate, files.key, files.authorities, files.crl)}
                reason = files.break_one(broken)
                status, _, answer = ask(gateway, "/reload", "POST")
                broken += 1
                assert status == 422 and reason in answer, answer
                eventually(lambda: gateway.errors.count("not reloaded, nothing changed") == broken, "the log to say so")
                metrics = scrape(gateway)
                assert metrics("attestgate_last_reload_success") == 0
                assert metrics("attestgate_reloads_total", result="failure") == broken
                assert metrics("attestgate_generation") == generation
                for path, text in good.items():
                    files.put(path, text)
                # The last good set is served on.
                clients.served = served
                with clients.connect(phone, contexts["phone"]) as client:
                    clients.exchange(client, 0)
            clients.served = None
            served = files.write()
            status, _, answer = ask(gateway, "/reload", "POST")
            generation += 1
            assert (status, json.loads(answer)["generation"]) == (200, generation), answer
            clients.served = served
            with clients.connect(phone, contexts["phone"]) as client:
                clients.exchange(client, 0)
            if opened and "suspect" not in files.admitted:
                assert ended(opened), "an open connection of a revoked client"
            if opened:
                opened.close()
        eventually(
            lambda: clients.faults or clients.counts["good"] >= REQUESTS,
            lambda: f"thousands of requests: {clients.counts}")
    finally:
        clients.end()
    assert clients.faults == [], clients.faults[:5]
    counts = clients.counts
    assert counts["good, resumed"] > 0 and scrape(gateway)("attestgate_last_reload_success") == 1
    for name in ["suspect", "visitor"]:
        # The control: what was refused would have been resumed.
        assert min(counts[name, outcome] for outcome in ["passed", "passed, resumed", "refused"]) > 0, counts
    assert clients.refused.isdisjoint(request.target for request in own_upstream.requests)
