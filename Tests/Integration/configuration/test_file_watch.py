"""Files that are watched: what is written is served without anybody saying so, and what is no good is not."""

import base64
import json
import os
import re
import shutil
import signal
import ssl

import pytest
from cryptography import x509

from support.client import Client, ended, get
from support.denials import assert_connection_refused
from support.enrolling_phone import AttestationAuthority, EnrollingPhone, MTLSKey, error_of
from support.enrolment import Enrolling
from support.exposition import scrape
from support.gateway import Gateway
from support.pki import AUTHORITY, Lists
from support.waiting import eventually


def reloads(gateway, result):
    return scrape(gateway)("attestgate_reloads_total", result=result)


def test_a_rewritten_revocation_list_applies_without_a_reload(start_gateway, own_upstream, pki, phone, tmp_path):
    lists = Lists(tmp_path, pki)
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients, watch="1s")
    revoked = pki.phone("revoked-while-watched")
    with Client(gateway, revoked) as barred, Client(gateway, phone) as kept:
        for client in [barred, kept]:
            assert client.exchange(get("/")).status == 200
        lists.revoke(revoked)
        assert ended(barred)
        assert kept.exchange(get("/")).status == 200
    eventually(lambda: "reloaded: generation 2" in gateway.errors, "the log to say so")
    assert "revocation list or OCSP response has changed: reloading" in gateway.errors


def test_a_bad_file_is_tried_once_and_the_last_good_one_stays(start_gateway, own_upstream, pki, phone, tmp_path):
    lists = Lists(tmp_path, pki)
    revoked = pki.phone("revoked-before-rubbish")
    lists.revoke(revoked)
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients, watch="1s")
    lists.gms.write_text("rubbish\n")
    eventually(lambda: reloads(gateway, "failure") == 1, "the reload to fail")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    refuse(gateway, revoked, 1)
    # Put back, it is read; and between, the bad one was not tried again.
    lists.revoke(revoked, reason="superseded")
    eventually(lambda: reloads(gateway, "success") == 1, "the good list to be read")
    assert reloads(gateway, "failure") == 1
    refuse(gateway, revoked, 2)


def refuse(gateway, identity, count):
    try:
        with Client(gateway, identity) as client:
            client.send(get("/refused"))
            assert ended(client)
    except OSError:
        pass
    assert_connection_refused(gateway, "certificate_revoked", count=count)


def test_files_that_a_reload_names_are_watched_from_then_on(
    start_gateway, own_upstream, pki, phone, tmp_path,
):
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_bytes(pki.server_certificate.read_bytes())
    key.touch(0o600)
    key.write_bytes(pki.server_key.read_bytes())
    gateway = start_gateway({"service": own_upstream.address}, watch="1s")
    gateway.conf["listeners"][0]["tls"].update(certificate=str(certificate), key=str(key))
    gateway.write_conf()
    gateway.signal(1)
    eventually(lambda: reloads(gateway, "success") == 1, "the copies to be served")
    before = os.stat(certificate).st_ino
    replacement = tmp_path / "next.pem"
    replacement.write_bytes(pki.server_certificate.read_bytes())
    replacement.replace(certificate)
    assert os.stat(certificate).st_ino != before
    eventually(lambda: reloads(gateway, "success") == 2, "the other file to be served")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


class MountedFolder:
    """A folder as Kubernetes mounts a ConfigMap or a Secret: each name is a link into `..data`, which is a link to a directory and
    is exchanged when anything changes."""

    def __init__(self, path):
        self.path, self.count = path, 0
        path.mkdir()

    def put(self, **files):
        self.count += 1
        version = self.path / f"..2026_11_27_{self.count}"
        version.mkdir()
        for name, content in files.items():
            (version / name).touch(0o600)
            (version / name).write_bytes(content)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        before = os.path.realpath(self.path / "..data")
        (self.path / "..data_tmp").symlink_to(version.name)
        (self.path / "..data_tmp").replace(self.path / "..data")
        if self.count > 1:
            shutil.rmtree(before)


@pytest.mark.parametrize("sandbox", ["off", "required"])
def test_a_mounted_folder_whose_link_is_exchanged_is_served(start_gateway, own_upstream, pki, phone, tmp_path, sandbox):
    """The conf file as a ConfigMap, the certificate as a Secret."""
    certificates, confs = MountedFolder(tmp_path / "certificates"), MountedFolder(tmp_path / "conf")

    def shown(gateway):
        with Client(gateway, phone) as client:
            return client.socket.getpeercert(binary_form=True)

    def put(server):
        certificates.put(certificate=server.certificate.read_bytes(), key=server.key.read_bytes())
        return ssl.PEM_cert_to_DER_cert(server.certificate.read_text())

    class Mounted(Gateway):
        def write_conf(self):
            self.conf["listeners"][0]["tls"].update(
                certificate=str(certificates.path / "certificate"), key=str(certificates.path / "key"))
            confs.put(attestgate=json.dumps(self.conf).encode())
            self.conf_path = confs.path / "attestgate"
    first = put(pki.server(f"mounted-{sandbox}-1"))
    gateway = Mounted(tmp_path / "gateway", pki, {"service": own_upstream.address}, watch="1s")
    gateway.arguments = ["--sandbox", sandbox]
    try:
        gateway.start()
        assert shown(gateway) == first
        second = put(pki.server(f"mounted-{sandbox}-2"))
        eventually(lambda: reloads(gateway, "success") == 1, lambda: f"the folder to be read\n{gateway.errors}")
        assert shown(gateway) == second != first
        # The conf file itself.
        gateway.conf["routes"][0]["path"] = "/moved"
        gateway.write_conf()
        eventually(lambda: reloads(gateway, "success") == 2, lambda: f"the conf file to be read\n{gateway.errors}")
        with Client(gateway, phone) as client:
            assert client.exchange(get("/moved")).status == 200
            assert client.exchange(get("/")).status == 404
        # One with a mistake: the last good one stays, and is not tried again.
        gateway.conf["routes"][0]["path"] = "moved"
        gateway.write_conf()
        eventually(lambda: reloads(gateway, "failure") == 1, "the mistake to be noticed")
        with Client(gateway, phone) as client:
            assert client.exchange(get("/moved")).status == 200
    finally:
        gateway.stop()


class EnrolmentFiles:
    """What enrolment reads, as copies that may be replaced."""

    def __init__(self, directory, pki, roots):
        self.pki, self.roots = pki, roots
        names = ["listener.pem", "listener.key", "ca.pem", "ca.key", "roots.pem"]
        self.certificate, self.key, self.ca, self.ca_key, self.root = (directory / name for name in names)
        self.put(self.certificate, pki.server_certificate)
        self.put(self.key, pki.server_key)
        self.put(self.ca, pki.gms.certificate)
        self.put(self.ca_key, pki.gms.key)
        self.put(self.root, roots.path)

    def put(self, path, source):
        beside = path.with_suffix(".new")
        beside.touch(0o600)
        beside.write_bytes(source.read_bytes())
        beside.replace(path)

    @property
    def section(self):
        return {
            "tls": {"certificate": str(self.certificate), "key": str(self.key)},
            "authority": {"certificate": str(self.ca), "key": str(self.ca_key)}}


@pytest.mark.parametrize("trigger", ["watched", "SIGHUP"])
def test_every_enrolment_file_is_read_again_when_it_changes(pki, own_upstream, tmp_path, trigger):
    files = EnrolmentFiles(tmp_path, pki, AttestationAuthority(tmp_path, "first root"))
    enrolling = Enrolling(
        tmp_path / "enrolling", pki, own_upstream, enrolment=files.section, app={"attestation_root": str(files.root)},
        **({"watch": "1s"} if trigger == "watched" else {}))
    gateway = enrolling.gateway

    def come_to(result, count):
        if trigger == "SIGHUP":
            gateway.signal(signal.SIGHUP)
        eventually(lambda: reloads(gateway, result) == count, lambda: f"the files to be read\n{gateway.errors}")

    def enrol(roots):
        """- Returns: the answer, and who has issued the certificate."""
        phone = EnrollingPhone(enrolling.service, roots, enrolling.provider)
        response = phone.initialize()
        if response.status != 204:
            return error_of(response), None
        response = phone.bind(MTLSKey())
        issuer = json.loads(response.content)["certificate_chain"][1]
        return response.status, x509.load_der_x509_certificate(base64.b64decode(issuer)).subject.rfc4514_string()

    def shown():
        with enrolling.service.connect() as client:
            return client.socket.getpeercert(binary_form=True)
    try:
        enrolling.start()
        assert enrol(files.roots) == (200, "CN=AttestGate development GMS CA")
        assert shown() == ssl.PEM_cert_to_DER_cert(pki.server_certificate.read_text())
        # Another of each.
        next_ca = pki.authority("next-gms", issuer=pki.root, extensions=AUTHORITY + "subjectKeyIdentifier=hash\n")
        next_roots = AttestationAuthority(tmp_path, "next root")
        server = pki.server("enrolment-listener")
        for path, source in [
                (files.certificate, server.certificate), (files.key, server.key), (files.ca, next_ca.certificate),
                (files.ca_key, next_ca.key), (files.root, next_roots.path)]:
            files.put(path, source)
        come_to("success", 1)
        assert enrol(next_roots) == (200, "CN=next-gms")
        assert enrol(files.roots)[0] == (403, "invalid_request")
        assert shown() == ssl.PEM_cert_to_DER_cert(server.certificate.read_text())
        # One that does not fit: the last good ones stay.
        files.put(files.ca_key, pki.server_key)
        come_to("failure", 1)
        assert scrape(gateway)("attestgate_last_reload_success") == 0
        assert re.search(r"not reloaded, nothing changed: \S+:\d+:\d+: error: enrolment: authority: ", gateway.errors)
        assert enrol(next_roots) == (200, "CN=next-gms")
    finally:
        enrolling.stop()
