"""Testers' phones, whose keys Apple attested for development, beside those of users: on the routes that are for them, and nowhere
else."""

import base64

import pytest

from support.denials import assert_denied
from support.gateway import APP, Gateway
from support.phone import Phone
from support.pki import attestgate
from support.reloading import reload

ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device"},
    {"name": "beta", "host": "localhost", "path": "/beta", "require": "request-proof"},
    {"name": "observed", "host": "localhost", "path": "/observed", "require": "request-proof", "enforce": "observe"},
]
TESTERS = {"environment": ["production", "development"], "development_devices": {"maximum": 2, "routes": ["beta"]}}


class RegisteredPhone(Phone):
    """A phone whose key was attested for an environment, as far as the registry knows."""

    def __init__(self, gateway, identity, environment):
        super().__init__(gateway, identity, register=False)
        self.environment = environment

    def register(self):
        self.gateway.device_command(
            "add", "--app-id", self.app, "--public-key", base64.b64encode(self.key.point).decode(),
            "--certificate-key", self.identity.key, "--environment", self.environment, "--json")
        return self


@pytest.fixture
def gateway(start_gateway, own_upstream):
    return start_gateway({"service": own_upstream.address}, ROUTES, apps=[{"id": APP, **TESTERS}])


@pytest.fixture
def phone_of(gateway, pki):
    return lambda environment: RegisteredPhone(gateway, pki.phone(f"phone-of-{environment}"), environment).register()


def test_a_tester_uses_only_the_routes_for_testers(gateway, phone_of, own_upstream):
    tester = phone_of("development")
    with tester.connect() as client:
        assert client.exchange(tester.request(path="/beta")).status == 200
        count = len(own_upstream.requests)
        for path in ("/", "/device"):
            response = client.exchange(tester.request(path=path))
            entry = assert_denied(gateway, response, "app_refused", 403)
            assert entry["route"] in ("records", "device")
        assert len(own_upstream.requests) == count


def test_a_user_uses_all_routes(gateway, phone_of):
    user = phone_of("production")
    with user.connect() as client:
        for path in ("/beta", "/", "/device"):
            assert client.exchange(user.request(path=path)).status == 200


def test_a_tester_on_an_observed_route_has_no_identity(gateway, phone_of, own_upstream):
    tester = phone_of("development")
    with tester.connect() as client:
        assert client.exchange(tester.request(path="/observed")).status == 200
    request = own_upstream.last_request()
    assert request.values("attest-verdict") == ["would-deny;code=app_refused"] and not request.values("attest-device")


def test_a_reload_admits_testers_and_locks_them_out(gateway, phone_of):
    tester = phone_of("development")
    app = gateway.conf["apps"][0]

    def load(**settings):
        app.clear()
        app.update({"id": APP, **settings})
        gateway.write_conf()
        done = reload(gateway)
        assert done.returncode == 0, done.stderr

    def ask(path):
        # An open connection keeps the rules by which it was accepted.
        with tester.connect() as client:
            return client.exchange(tester.request(path=path))

    load(environment="production")
    entry = assert_denied(gateway, ask("/beta"), "app_refused", 403)
    assert "attested for the environment development" in entry["detail"]
    load(environment="development")
    assert ask("/").status == 200
    load(**{**TESTERS, "development_devices": {"maximum": 2, "routes": ["records"]}})
    assert ask("/").status == 200
    assert_denied(gateway, ask("/beta"), "app_refused", 403)


def test_an_environment_that_the_app_does_not_have_is_not_registered(gateway, pki):
    phone = Phone(gateway, pki.phone("phone-of-simulator"), register=False)
    done = attestgate(
        "device", "add", "--config", gateway.conf_path, "--app-id", APP, "--public-key",
        base64.b64encode(phone.key.point).decode(), "--certificate-key", phone.identity.key, "--environment", "simulator")
    assert done.returncode != 0 and "environment `production` and `development`" in done.stderr


def test_the_environment_is_shown_and_exported(gateway, phone_of, tmp_path):
    phone_of("development")
    assert '"environment":"development"' in gateway.device_command("list", "--json").replace(" ", "")
    done = attestgate("registry", "export", "--config", gateway.conf_path)
    assert done.returncode == 0 and '"environment":"development"' in done.stdout


BAD = {
    "no limits": ({"environment": ["production", "development"]}, "`development_devices` is missing"),
    "limits without testers": (
        {"environment": "production", "development_devices": {"maximum": 1, "routes": ["beta"]}}, "no effect with one environment"),
    "an unknown route": ({**TESTERS, "development_devices": {"maximum": 1, "routes": ["bata"]}}, "there is no route `bata`"),
    "a route for certificates": (
        {**TESTERS, "development_devices": {"maximum": 1, "routes": ["open"]}}, "does not admit devices of the app"),
    "software phones beside others": ({**TESTERS, "environment": ["production", "simulator"]}, "software phones have roots of their own"),
    "none": ({**TESTERS, "development_devices": {"maximum": 0, "routes": ["beta"]}}, "out of range"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_configuration_that_lets_testers_in_without_limits_is_refused(pki, tmp_path, case):
    settings, expected = BAD[case]
    routes = [*ROUTES, {"name": "open", "host": "localhost", "path": "/open"}]
    gateway = Gateway(tmp_path / "bad", pki, {"service": "127.0.0.1:9"}, routes, apps=[{"id": APP, **settings}])
    gateway.write_conf()
    gateway.holder.close()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode != 0 and expected in done.stderr, done.stderr
