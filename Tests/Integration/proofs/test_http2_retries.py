"""What HTTP/2 lets a client send again by itself has spent no counter: the very same proof passes on another connection.

RFC 9113 section 8.7: a stream that was refused with REFUSED_STREAM, or lies above the last one of a GOAWAY, was not looked at.
After a start on a file the challenge is another one, so the request is signed again, with the same counter.
"""

import time
from datetime import timezone

import h2.errors
from cryptography import x509

from support.denials import code_of
from support.gateway import running
from support.http2_client import ConnectionOver, HTTP2Client
from support.phone import Phone
from support.recording_upstream import Held
from support.seeds import seeded
from support.waiting import at_some_pace

Codes = h2.errors.ErrorCodes


class Burst:
    """Requests of a phone, by the streams of one connection that they were sent on."""

    def __init__(self, http2):
        self.http2, self.requests = http2, {}

    def send(self, requests):
        self.requests |= dict(zip(self.http2.begin_together(requests), requests))

    def outcome(self):
        """After the connection's end. - Returns: the requests that passed, and those that a client may send again."""
        passed, again = [], []
        last = self.http2.going_away[-1][1] if self.http2.going_away else (1 << 31) - 1
        for number, data in self.requests.items():
            stream = self.http2.streams[number]
            if stream.is_ended:
                assert code_of(stream.response) is None and number <= last
                passed.append(data)
            else:
                # Nothing between the two: a client must be able to tell.
                assert stream.response is None
                assert stream.reset == Codes.REFUSED_STREAM or stream.reset is None and number > last, (number, stream.reset)
                again.append(data)
        return passed, again


def assert_refused_as_replayed(attested, phone, requests):
    with attested.nothing_forwarded_at_all(), phone.connect() as client:
        assert {code_of(client.exchange(data)) for data in requests} == {"counter_replayed"}


def assert_passes(phone, requests):
    with HTTP2Client(phone.gateway, phone.identity) as http2:
        responses = [http2.response(number) for number in http2.begin_together(requests)]
    assert {code_of(response) for response in responses} == {None}


def test_requests_above_a_connections_limit_pass_on_the_next(start_attested):
    choose = seeded()
    attested = start_attested(counter="window 1024", limits={"requests_per_connection": 40})
    waiting = [attested.phone.request(path=f"/{n}") for n in range(100)]
    choose.shuffle(waiting)
    counts = []
    while waiting:
        with HTTP2Client(attested.gateway, attested.phone.identity) as http2:
            burst = Burst(http2)
            burst.send(waiting)
            if len(waiting) < 40:
                http2.pump_until(lambda: all(stream.is_ended for stream in http2.streams.values()))
            else:
                http2.wait_for_end()
            passed, waiting = burst.outcome()
        counts.append(len(passed))
        assert_refused_as_replayed(attested, attested.phone, passed[:30])
    assert counts == [40, 40, 20]
    assert sorted(int(r.target[1:]) for r in attested.upstream.requests) == list(range(100))


def test_streams_refused_before_a_client_can_know_how_many_there_may_be_pass_later(start_attested):
    attested = start_attested(counter="window 1024", limits={"streams": 4})
    held = Held(attested.upstream)
    phone = attested.phone
    requests = [phone.request(path=f"/{n}") for n in range(12)]
    with HTTP2Client(attested.gateway, phone.identity, preface=False) as http2:
        # Preface and requests come before our settings are acknowledged (RFC 9113 section 6.5.3).
        http2.h2.initiate_connection()
        burst = Burst(http2)
        burst.send(requests)
        numbers = list(burst.requests)
        http2.pump_until(lambda: all(http2.resets(numbers[4:])))
        for n in range(12):
            held.release(f"/{n}")
        for number in numbers[:4]:
            http2.response(number)
        passed, again = burst.outcome()
        assert (passed, again) == (requests[:4], requests[4:])
        # On the same connection too, as the client likes.
        assert code_of(http2.exchange(again[0])) is None
    assert_passes(phone, again[1:5])
    assert_passes(phone, again[5:])
    assert_refused_as_replayed(attested, phone, requests)


def test_a_client_above_a_limit_it_does_not_know_keeps_its_connection(start_attested):
    attested = start_attested(counter="window 1024", limits={"streams": 4})
    held = Held(attested.upstream)
    phone = attested.phone
    requests = [phone.request(path=f"/{n}") for n in range(100)]
    with HTTP2Client(attested.gateway, phone.identity, preface=False) as http2:
        http2.h2.initiate_connection()
        burst = Burst(http2)
        burst.send(requests)
        numbers = list(burst.requests)
        http2.pump_until(lambda: all(http2.resets(numbers[4:])))
        for n in range(4):
            held.release(f"/{n}")
        for number in numbers[:4]:
            assert http2.response(number).status == 200
        passed, again = burst.outcome()
        assert (passed, again) == (requests[:4], requests[4:])


def test_requests_beyond_a_stopping_gateways_last_goaway_pass_at_the_next(start_attested):
    attested = start_attested(counter="window 1024", timeouts={"shutdown": "20s"})
    gateway, phone, held = attested.gateway, attested.phone, Held(attested.upstream)
    requests = [phone.request(path=f"/{n}") for n in range(90)]
    waiting = iter(requests)
    with HTTP2Client(gateway, phone.identity) as http2:
        burst = Burst(http2)
        burst.send([next(waiting) for _ in range(10)])
        attested.upstream.wait_for_requests(10)
        with gateway.paused():
            # These, and the word to end, it finds at once.
            burst.send([next(waiting) for _ in range(10)])
            gateway.signal()
        for _ in range(50):
            if len(http2.going_away) == 2:
                break
            burst.send([next(waiting)])
            http2.pump_for(0.1)
        http2.pump_until(lambda: len(http2.going_away) == 2)
        late = list(waiting)
        assert len(late) >= 20
        burst.send(late)
        for n in range(90):
            held.release(f"/{n}")
        http2.wait_for_end()
        passed, again = burst.outcome()
    assert gateway.wait() == 0
    running.remove(gateway)
    # What came before the announcement is completed, what came after the last word is not looked at.
    assert passed[:10] == requests[:10] and set(late) <= set(again)
    gateway.start()
    passed, again = ([phone.again(data) for data in requests] for requests in (passed, again))
    assert_refused_as_replayed(attested, phone, passed)
    assert_passes(phone, again)
    assert_refused_as_replayed(attested, phone, again)
    assert sorted(int(r.target[1:]) for r in attested.upstream.requests) == list(range(90))


def test_content_begun_at_a_stopping_gateway_is_received_completely(start_attested):
    attested = start_attested(timeouts={"shutdown": "20s"})
    phone = attested.phone
    fields = [(name.lower(), value) for name, value in phone.proof("POST", "/upload", content=b"content")]
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        number = http2.start("POST", "/upload", fields, end=False)
        http2.send(number, b"con")
        http2.ping()
        attested.gateway.signal()
        http2.pump_until(lambda: len(http2.going_away) == 2)
        assert http2.going_away[-1] == (Codes.NO_ERROR, number)
        http2.send(number, b"tent", end=True)
        assert http2.response(number).status == 200
        http2.wait_for_end()
    assert attested.gateway.wait() == 0
    assert attested.upstream.last_request().content == b"content"


def test_requests_sent_as_an_idle_connection_ends_pass_on_the_next(start_attested):
    def attempt(seconds):
        attested = start_attested(counter="window 1024", timeouts={"keep_alive": f"{seconds}s"})
        phone = attested.phone
        requests = [phone.request(path=f"/{n}") for n in range(10)]
        with HTTP2Client(attested.gateway, phone.identity) as http2:
            assert code_of(http2.exchange(phone.request(path="/first"))) is None
            with attested.gateway.paused():
                burst = Burst(http2)
                burst.send(requests)
                # Past the end, so that the gateway finds both.
                time.sleep(seconds + 0.2)
            http2.wait_for_end()
            passed, again = burst.outcome()
        assert sorted(passed + again) == sorted(requests)
        if passed:
            assert_refused_as_replayed(attested, phone, passed)
        if again:
            assert_passes(phone, again)
            assert_refused_as_replayed(attested, phone, again)
    at_some_pace(attempt)


def under_way(attested, held, lives):
    """A phone whose certificate ends soon, and a connection on which it has ten requests under way."""
    for life in lives:
        name = f"retrying-{life}-{time.time_ns()}"
        phone = Phone(attested.gateway, attested.pki.client(name, end=life / 86_400), attested.phone.app)
        try:
            burst = Burst(HTTP2Client(attested.gateway, phone.identity))
            before = len(attested.upstream.requests)
            burst.send([phone.request(path=f"/{n}") for n in range(10)])
            burst.http2.ping()
            if burst.http2.going_away:
                continue
            attested.upstream.wait_for_requests(before + 10)
            return phone, burst
        except (OSError, ConnectionOver):
            continue
    raise AssertionError("a slow machine")


def test_requests_after_the_certificates_end_pass_with_the_next_certificate(start_attested):
    attested = start_attested(counter="window 1024")
    held = Held(attested.upstream)
    # Long enough for whatever machine this is: ten requests must have passed before the end.
    phone, burst = under_way(attested, held, (4, 15, 45))
    later = [phone.request(path=f"/{n}") for n in range(10, 30)]
    end = x509.load_pem_x509_certificate(phone.identity.certificate.read_bytes()).not_valid_after
    with burst.http2 as http2:
        with attested.gateway.paused():
            burst.send(later)
            # Two seconds: a certificate is good to the end of its last second.
            time.sleep(max(0, end.replace(tzinfo=timezone.utc).timestamp() - time.time() + 2))
        http2.pump_until(lambda: http2.going_away)
        for n in range(30):
            held.release(f"/{n}")
        http2.wait_for_end()
        passed, again = burst.outcome()
    assert len(passed) == 10 and again == later
    phone.identity = attested.pki.client(f"renewed-{time.time_ns()}", key=phone.identity.key)
    assert_refused_as_replayed(attested, phone, passed)
    assert_passes(phone, again)
    assert_refused_as_replayed(attested, phone, again)
