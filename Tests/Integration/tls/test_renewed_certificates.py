"""The server certificate that an ACME client renews: the page's hook brings it to the gateway."""

import os
import ssl
import subprocess

import pytest

from support.client import Client, get
from support.documented import blocks
from support.gateway import Gateway
from support.paths import BINARY, ENVIRONMENT, REPOSITORY

PAGE = REPOSITORY / "docs" / "operations" / "certificates.md"


@pytest.fixture
def renew(tmp_path, pki, own_upstream):
    """A gateway with a certificate of its own, and the page's hook for its folder."""
    target, lineage = tmp_path / "etc", tmp_path / "lineage"
    target.mkdir()
    lineage.mkdir()
    tls = {"certificate": str(target / "server.pem"), "key": str(target / "server.key")}
    (target / "server.pem").write_bytes(pki.server_certificate.read_bytes())
    (target / "server.key").write_bytes(pki.server_key.read_bytes())
    os.chmod(target / "server.key", 0o600)
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    gateway.conf["listeners"][0]["tls"].update(tls)
    gateway.write_conf()
    gateway.start()
    text, = (block.text for block in blocks(PAGE) if block.file == "certbot-hook")
    for written, here in [
        ("owner=attestgate", f"owner={os.getuid()}"), ("target=/etc/attestgate", f"target={target}"),
        ("conf=/etc/attestgate/attestgate.yaml", f"conf={gateway.conf_path}"),
    ]:
        assert text.count(f"{written}\n") == 1
        text = text.replace(f"{written}\n", f"{here}\n")
    hook = tmp_path / "hook"
    hook.write_text(text)
    hook.chmod(0o755)

    def renew(certificate, key):
        (lineage / "fullchain.pem").write_bytes(certificate.read_bytes())
        (lineage / "privkey.pem").write_bytes(key.read_bytes())
        path = f"{BINARY.parent}:{os.environ['PATH']}"
        return subprocess.run(
            [hook], capture_output=True, text=True, timeout=60,
            env={**ENVIRONMENT, "RENEWED_LINEAGE": str(lineage), "PATH": path})
    renew.gateway, renew.target = gateway, target
    yield renew
    gateway.stop()


def shown(gateway, phone):
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        return client.socket.getpeercert(binary_form=True)


def test_a_renewed_certificate_is_served_and_its_key_stays_private(renew, pki, phone):
    renewed = pki.server("renewed")
    done = renew(renewed.certificate, renewed.key)
    assert done.returncode == 0, done.stderr
    assert shown(renew.gateway, phone) == ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())
    assert (renew.target / "server.key").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in renew.target.iterdir()) == ["server.key", "server.pem"]


def test_the_hook_fails_with_the_reason_if_the_certificate_does_not_fit_and_the_old_one_is_served(renew, pki, phone):
    before = shown(renew.gateway, phone)
    done = renew(pki.server("renewed").certificate, pki.server("other-server").key)
    assert done.returncode != 0
    assert "server.key" in done.stderr + done.stdout
    assert shown(renew.gateway, phone) == before
