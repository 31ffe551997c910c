"""Conf files in several pieces, with the program as it is run."""

import signal

import yaml

from support.client import Client, get
from support.exposition import scrape
from support.paths import REPOSITORY
from support.pki import about_the_file, attestgate
from support.waiting import eventually

DOCUMENTED = REPOSITORY / "docs/operations/configuration.md"


def test_an_included_file_is_applied_and_a_reload_reads_it_again(start_gateway, own_upstream, phone, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "first", "host": "localhost", "path": "/first"}],
        include=f"{parts}/*.yaml")

    def status(path):
        with Client(gateway, phone) as client:
            return client.exchange(get(path)).status

    assert (status("/first"), status("/second")) == (200, 404)
    second = {"name": "second", "host": "localhost", "path": "/second", "require": "certificate", "upstream": "service"}
    (parts / "second.yaml").write_text(yaml.safe_dump({"routes": [second]}))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: scrape(gateway)("attestgate_reloads_total", result="success") == 1, "the part to be served")
    assert (status("/first"), status("/second")) == (200, 200)

    # A mistake in a part changes nothing, and its message names the part.
    (parts / "second.yaml").write_text(yaml.safe_dump({"routes": [{**second, "upstream": "servce"}]}))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: scrape(gateway)("attestgate_reloads_total", result="failure") == 1, "the mistake to be found")
    assert status("/second") == 200
    assert f"{parts}/second.yaml:6:13: error: there is no upstream `servce`" in gateway.errors


def test_the_documented_example_loads(pki, tmp_path):
    from support.least_conf import CONF

    blocks = [block.split("```")[0] for block in DOCUMENTED.read_text().split("```yaml\n")[1:]]
    include, part = next(block for block in blocks if "include" in block), next(block for block in blocks if "routes" in block)
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "images.yaml").write_text(
        part.replace("images.example.org", "localhost") + "    require: certificate\n")
    (tmp_path / "attestgate.yaml").write_text(include + CONF.format(pki=pki.directory))
    done = attestgate("check", "--config", tmp_path / "attestgate.yaml")
    assert (done.returncode, about_the_file(done.stderr)) == (0, "")
    assert "2 routes, 2 upstreams" in done.stdout
