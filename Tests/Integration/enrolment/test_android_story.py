"""One Android phone from nothing to its end, by the built programs alone: a thousand requests on four connections at a time, a
killed gateway, another certificate, and Google's list."""

import json
import os
import subprocess

from support.command_line import DEVICE_TOOL
from support.paths import ENVIRONMENT, PATIENCE
from support.software_phone import EnrollingGateway
from support.status_list_service import listing
from support.waiting import eventually

CONNECTIONS = 4
# An empty list, or one that lost most of its entries, is not taken.
OTHERS = ["c0ffee", "decade", "4242"]


def test_a_phone_from_nothing_to_its_revocation(pki, shared_upstream, tmp_path):
    revoked = tmp_path / "status-list.json"
    revoked.write_bytes(listing(*OTHERS))
    service = EnrollingGateway(
        tmp_path, pki, shared_upstream, platforms=["android"], app={"counter": "window 1024"},
        android={"status_list": {"file": str(revoked), "interval": "1s"}})
    try:
        phone = service.phone("phone")
        phone.enrol()
        shared_upstream.requests.clear()
        # Over HTTP/1.1 each request of a process has a connection of its own.
        for each, version in [(20, []), (20, []), (210, ["--http2"])]:
            assert together(phone, each, *version) == ["200"] * CONNECTIONS * each
        counters = seen(shared_upstream)
        assert len(counters) == len(set(counters)) == 1000

        # Each goes twice with one proof, and once through.
        assert sorted(lines(requests(phone, "--parallel", "10", "--http2", "--replay"))) == ["200"] * 10 + ["401"] * 10

        killed(service, phone, shared_upstream)
        outcomes = together(phone, 50, "--http2")
        assert outcomes == ["200"] * CONNECTIONS * 50, "no counter that the phone makes was spent by the crash"
        counters = seen(shared_upstream)
        assert len(counters) == len(set(counters)), "no counter was served twice"

        phone.enrol("--rotate")
        assert phone.request() == (200, None)
        device = json.loads(service.gateway.device_command("show", "--json", str(phone.number)))
        assert len(device["bindings"]) == 2 and device["state"] == "active"
        assert device["phone"]["security_level"] == "tee" and device["phone"]["key_listed"] is False
        bound = device["bindings"][-1]["created_at"]
        assert device["posture"] == {
            "platform": "android", "environment": device["environment"], "os_version": device["os_version"],
            "patch_level": device["phone"]["patch_level"], "vendor_patch_level": device["phone"]["vendor_patch_level"],
            "boot_patch_level": device["phone"]["boot_patch_level"],
            "app_version": str(device["phone"]["app_version"]), "key_protection": "tee",
            "certificate_key_attested": True, "boot": "verified", "bootloader_locked": True, "admission": "open",
            "enrolled_at": device["registered_at"], "attested_at": bound, "bound_at": bound}

        fresh = tmp_path / "fresh.json"
        fresh.write_bytes(listing(*OTHERS, device["phone"]["serials"][0]))
        os.replace(fresh, revoked)
        eventually(lambda: phone.request() == (403, "device_risky"), "the phone is refused")
        assert "403 integrity_check_error" in phone.enrol("--rotate", status=1).stderr
        fresh.write_bytes(listing(*OTHERS))
        os.replace(fresh, revoked)
        eventually(lambda: phone.request() == (200, None), "the phone is released")
    finally:
        service.stop()


def seen(upstream):
    return [value for request in upstream.requests for value in request.values("attest-counter")]


def requests(phone, *arguments, wait=True):
    """Sends requests of one process: with HTTP/2 on one connection."""
    port = phone.service.gateway.port
    command = [
        DEVICE_TOOL, "request", "--directory", phone.directory, "--cacert", phone.service.pki.server_ca, "--resolve",
        f"localhost:{port}:127.0.0.1", *arguments, f"https://localhost:{port}/records/1"]
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    return process.communicate(timeout=4 * PATIENCE)[0] if wait else process


def lines(printed):
    """The statuses: one line for each request, as `3: 401 counter_late` or `first 3: 200`."""
    return [line.split(": ")[1].split()[0] for line in printed.splitlines()]


def together(phone, each, *version):
    """Sends requests from four processes at a time. - Returns: the statuses."""
    processes = [requests(phone, "--parallel", str(each), *version, wait=False) for _ in range(CONNECTIONS)]
    return [status for process in processes for status in lines(process.communicate(timeout=4 * PATIENCE)[0])]


def killed(service, phone, upstream):
    """Kills the gateway while it serves requests, and starts it again."""
    process = requests(phone, "--parallel", "400", "--http2", wait=False)
    before = len(upstream.requests)
    eventually(lambda: len(upstream.requests) > before + 20, "some requests are served")
    service.gateway.crash()
    process.communicate(timeout=4 * PATIENCE)
    service.gateway.start()
