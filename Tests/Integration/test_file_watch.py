"""Files that are watched: what is written is served without anybody saying so, and what is no good is not."""

import os

from client import Client, get
from denials import assert_connection_refused
from exposition import scrape
from test_revocation import Lists, ended
from waiting import eventually


def reloads(gateway, result):
    return scrape(gateway)("attestgate_reloads_total", result=result)


def test_a_list_that_is_written_holds_without_a_reload(start_gateway, own_upstream, pki, phone, tmp_path):
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
