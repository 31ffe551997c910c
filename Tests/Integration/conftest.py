"""What the tests of the built program share: one PKI, one recording service, gateways that show their logs on failure."""

import pytest

from support import gateway as gateways, ocsp
from support.attested import Attested
from support.client import Client, get
from support.denials import NothingForwarded
from support.exposition import scrape
from support.gateway import BRIEF, Gateway
from support.java import Java
from support.nginx import Nginx
from support.pki import PKI, attestgate
from support.platforms import PLATFORMS
from support.postgresql import PostgreSQL
from support.recording_upstream import RecordingUpstream
from support.sharing import Sharing

pytest_plugins = [f"support.{name}" for name in ("every_denial", "failed_tests", "random_order", "taking_turns")]


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """pytest's own, with a shorter name: the path of a Unix socket has at most 107 bytes (unix(7))."""
    return tmp_path_factory.mktemp(request.node.name.removeprefix("test_").split("[")[0][:12])


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    return PKI(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def phone(pki):
    return pki.phone()


@pytest.fixture(scope="session")
def shared_upstream():
    upstream = RecordingUpstream()
    yield upstream
    upstream.close()


@pytest.fixture
def upstream(shared_upstream):
    """The recording service behind `gateway`; whatever reached it must have been canonical."""
    shared_upstream.reset_behaviour()
    shared_upstream.faults.clear()
    yield shared_upstream
    shared_upstream.reset_behaviour()
    assert shared_upstream.faults == [], "the gateway forwarded what is no canonical request"


@pytest.fixture(scope="session")
def shared_gateway(pki, shared_upstream, tmp_path_factory):
    gateway = Gateway(
        tmp_path_factory.mktemp("gateway"), pki, {"service": shared_upstream.address}, strip_headers=["X-Internal-User"])
    gateway.start()
    yield gateway
    gateway.stop(BRIEF)


@pytest.fixture
def gateway(shared_gateway):
    """An ordinary gateway with one worker and one route to everything, shared by the tests that leave it as it is."""
    assert shared_gateway.process.poll() is None, f"an earlier test ended the gateway\n{shared_gateway.errors}"
    shared_gateway.begin()
    return shared_gateway


@pytest.fixture
def start_gateway(pki, tmp_path):
    """Starts gateways of a test's own; they must end well with it."""
    started = []

    def start(upstreams, *arguments, kind=Gateway, **settings):
        made = kind(tmp_path / f"gateway-{len(started)}", pki, upstreams, *arguments, **settings)
        started.append(made)
        return made.start()

    yield start
    for made in started:
        made.stop(BRIEF)


@pytest.fixture
def own_upstream():
    """A recording service that no other test has spoken to."""
    upstream = RecordingUpstream()
    yield upstream
    upstream.close()
    assert upstream.faults == [], "the gateway forwarded what is no canonical request"


@pytest.fixture(scope="session")
def shared_attested(pki, tmp_path_factory):
    upstream = RecordingUpstream()
    attested = Attested(tmp_path_factory.mktemp("attested"), pki, upstream, platforms=PLATFORMS)
    yield attested
    attested.gateway.stop(BRIEF)
    upstream.close()


@pytest.fixture
def attested(shared_attested):
    """A gateway whose routes ask for proofs, with a registered phone; for tests that leave both as they are."""
    gateway, upstream = shared_attested.gateway, shared_attested.upstream
    assert gateway.process.poll() is None, f"an earlier test ended the gateway\n{gateway.errors}"
    gateway.begin()
    upstream.reset_behaviour()
    yield shared_attested
    upstream.reset_behaviour()
    assert upstream.faults == [], "the gateway forwarded what is no canonical request"


@pytest.fixture
def start_attested(pki, own_upstream, tmp_path):
    """Starts such gateways of a test's own; they must end well with it."""
    started = []

    def start(**settings):
        made = Attested(tmp_path / f"attested-{len(started)}", pki, own_upstream, **settings)
        started.append(made)
        return made

    yield start
    for made in started:
        made.gateway.stop(BRIEF)


@pytest.fixture
def every_metric(start_attested, pki, tmp_path):
    """A scrape of a gateway that is configured so that no metric and no label is absent."""
    crls = [pki.crl(tmp_path / "gms.crl", pki.gms), pki.crl(tmp_path / "root.crl", pki.root)]
    attested = start_attested(clients={"crls": list(map(str, crls))})
    gateway = attested.gateway
    stapled = ocsp.Stapled(tmp_path, pki)
    stapled.write()
    listener = gateway.conf["listeners"][0]
    listener["tls"].update(stapled.tls)
    listener["hosts"] = [{"names": ["host.example"], "tls": listener["tls"].copy(), "clients": listener["clients"].copy()}]
    gateway.conf["tracing"] = {"endpoint": "http://127.0.0.1:9"}
    gateway.conf["upstreams"]["named"] = {"servers": ["deep.localhost:9"], "plaintext": "accepted"}
    gateway.conf["routes"][0]["enforce"] = "observe"
    # No device has an attestation.
    gateway.conf["policies"] = {"attested": {"attested_within": "1d"}}
    gateway.conf["routes"][1]["policy"] = "attested"
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    # Some have samples only once something occurred.
    with attested.phone.connect() as client:
        assert client.exchange(get("/")).status == 200
        assert client.exchange(get("/location/1")).status == 401
        assert client.exchange(get("/device")).status == 403
    return scrape(gateway)


@pytest.fixture(scope="session")
def java(tmp_path_factory):
    """The trust client for Android, compiled."""
    return Java(tmp_path_factory.mktemp("java"))


@pytest.fixture
def database():
    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture
def start_sharing(pki, own_upstream, tmp_path, database):
    """Starts gateways on the database, which have one secret; they must end well with the test."""
    sharing = Sharing(tmp_path, pki, own_upstream, database)
    yield sharing.start
    sharing.stop()


@pytest.fixture(scope="session")
def nginx(tmp_path_factory):
    server = Nginx(tmp_path_factory.mktemp("nginx"))
    yield server
    server.stop()


@pytest.fixture
def connect(gateway, phone):
    """Opens connections to the shared gateway, closed with the test."""
    clients = []

    def open_connection(**options):
        client = Client(gateway, phone, **options)
        clients.append(client)
        return client

    yield open_connection
    for client in clients:
        client.close()


@pytest.fixture
def nothing_forwarded(gateway, upstream, phone):
    return NothingForwarded(gateway, upstream, phone)


@pytest.fixture
def started():
    """Starts decision points, which must end without a fault."""
    made = []

    def start(kind, *arguments, **options):
        made.append(kind(*arguments, **options))
        return made[-1]
    yield start
    for point in made:
        point.stop()


# Failures show what the gateways had to say.

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for index, made in enumerate(gateways.running):
            if made in gateways.stopped and made.directory.parent != getattr(item, "funcargs", {}).get("tmp_path"):
                continue
            report.sections.append((f"gateway {index}: standard error", made.errors[-4000:]))
            # A test may have put a directory in its place.
            if made.access_path.is_file():
                tail = "\n".join(made.access_path.read_text().splitlines()[-10:])
                report.sections.append((f"gateway {index}: access log", tail))
