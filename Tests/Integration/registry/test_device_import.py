"""`attestgate device import`: many devices at once, on the registry's file and through a running gateway."""

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.gateway import APP
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate
from support.waiting import eventually

DEVICES = 12


def prepare(directory, count=DEVICES, app=APP):
    """Keys and registrations of a fleet, as the load generator makes them. - Returns: the list to be imported."""
    done = subprocess.run(
        [BINARY.with_name("attestgate-load"), "--prepare", directory, "--devices", str(count), "--app-id", app],
        capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return directory / "registrations.jsonl"


@pytest.fixture
def fleet(tmp_path):
    return prepare(tmp_path / "fleet")


@pytest.fixture(params=["file", "gateway"])
def gateway(request, start_attested):
    """Where devices are registered: in the file of a gateway that does not run, or through one that does."""
    gateway = start_attested().gateway
    return gateway if request.param == "gateway" else gateway.halt()


def imported(gateway, path, *arguments, **options):
    return attestgate("device", "import", "--config", gateway.conf_path, *arguments, path, **options)


def listed(gateway):
    """The key ids of all devices, in their order; of a phone to begin with."""
    return [device["key_id"] for device in json.loads(
        gateway.device_command("list", "--json", "--limit", "10000"))["devices"]]


def test_all_devices_of_a_list_are_registered_and_the_second_time_skipped(gateway, fleet):
    before = len(listed(gateway))
    done = imported(gateway, fleet)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"registered {DEVICES} devices\n", "")
    assert len(listed(gateway)) == before + DEVICES
    done = imported(gateway, fleet, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"registered": 0, "skipped": DEVICES}
    done = imported(gateway, "-", input=fleet.read_text().rstrip("\n"))
    assert (done.returncode, done.stdout) == (0, f"registered 0 devices, skipped {DEVICES} already registered\n")
    assert len(listed(gateway)) == before + DEVICES


def test_one_faulty_line_prevents_all_registrations(gateway, fleet):
    before = listed(gateway)
    lines = fleet.read_text().splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    for bad, reason in [
        (lines[0][:-1], "JSON"), ("", "JSON"), (lines[0], "The hardware key is already in line 1."),
        (json.dumps({**first, "public_key": last["public_key"], "certificate_key": "AAAA"}), "'certificate_key'"),
        (json.dumps({**last, "app_id": "ABCDE12345.org.example.unheard"}), "The app 'ABCDE12345.org.example.unheard' is not configured"),
        (json.dumps({**last, "certificate_key": first["certificate_key"]}), "The certificate key is already in line 1."),
        (json.dumps({**last, "environment": "production"}), "'environment'"),
        (json.dumps({**last, "platform": "symbian"}), "'platform'"), ("x" * 5000, "longer"),
    ]:
        fleet.write_text("\n".join([*lines[:-1], bad, ""]))
        done = imported(gateway, fleet)
        assert (done.returncode, done.stdout) == (1, "")
        message, *rest = done.stderr.splitlines()
        assert message.startswith(f"{fleet}:{DEVICES}: ") and reason in message, done.stderr
        assert rest == ["Error: nothing was registered"]
    assert listed(gateway) == before


def test_a_device_that_is_registered_otherwise_ends_the_import_at_its_line(gateway, fleet):
    lines = fleet.read_text().splitlines()
    fifth = {**json.loads(lines[4]), "certificate_key": json.loads(lines[11])["certificate_key"]}
    gateway.device_command(
        "add", "--app-id", APP, "--public-key", fifth["public_key"], "--certificate-key", fifth["certificate_key"])
    fleet.write_text("\n".join(lines[:11]))
    before = len(listed(gateway))
    done = imported(gateway, fleet, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    message, rest = done.stderr.splitlines()
    assert message.startswith(f"{fleet}:5: The hardware key is already registered as device ") and "certificate key" in message
    assert rest == "Error: registered 4 devices; you can repeat the import"
    assert len(listed(gateway)) == before + 4


def test_a_killed_import_resumes_where_it_ended(gateway, tmp_path):
    # In the file there are transactions of 500; through the gateway each device costs a command.
    count = 3000 if gateway.process.poll() is not None else 500
    path = prepare(tmp_path / "many", count)
    before = len(listed(gateway))
    log = Path(gateway.conf["registry"]["path"] + "-wal")

    def state():
        return (log.stat().st_size, log.stat().st_mtime_ns) if log.exists() else (0, 0)

    untouched = state()
    command = subprocess.Popen(
        [BINARY, "device", "import", "--config", gateway.conf_path, path], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    # Opening the file writes no log; the first commit does.
    eventually(lambda: state()[0] > 0 and state() != untouched, "something to be registered")
    command.send_signal(signal.SIGKILL)
    command.wait(PATIENCE)
    done = imported(gateway, path, "--json")
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    print(f"killed after {tally['skipped']} of {count}")
    assert tally["registered"] + tally["skipped"] == count
    assert len(listed(gateway)) == before + count


def test_imported_devices_pass_with_their_proofs(gateway, fleet, pki):
    assert imported(gateway, fleet).returncode == 0
    if gateway.process.poll() is not None:
        gateway.start()
    done = subprocess.run(
        [BINARY.with_name("attestgate-load"), "--mode", "attested", "--prepared", fleet.parent, "--certificates",
         pki.directory, "--connections", str(DEVICES), "--warmup", "0", "--duration", "1", "--json", "--quiet",
         f"https://localhost:{gateway.port}/records"],
        capture_output=True, text=True, timeout=2 * PATIENCE, env=ENVIRONMENT)
    report = json.loads(done.stdout)
    assert (done.returncode, set(report["statuses"])) == (0, {"200"}), report
    gateway.halt()
    # Spent values are logged once, at the end.
    spent = [line for line in gateway.errors.splitlines() if " commits" in line]
    assert len(spent) == 1
    words = json.loads(spent[0])["message"].split()
    assert (words[0], words[2:4], words[5]) == ("registry:", ["counters", "in"], "commits")
    assert int(words[1]) >= report["requests"] and 0 < int(words[4]) <= int(words[1])


def test_progress_is_shown_only_on_terminals_and_for_long_imports(gateway, fleet):
    reader, writer = pty.openpty()
    start = time.monotonic()
    try:
        done = subprocess.run(
            [BINARY, "device", "import", "--config", gateway.conf_path, fleet], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=writer, text=True, timeout=PATIENCE, env=ENVIRONMENT)
        assert (done.returncode, done.stdout) == (0, f"registered {DEVICES} devices\n")
        os.set_blocking(reader, False)
        # A machine may be so slow that even this takes long.
        if time.monotonic() < start + 2:
            with pytest.raises(BlockingIOError):
                os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


def test_an_unreadable_or_empty_list_is_refused(gateway, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    for path, reason in [
        (tmp_path / "nowhere.jsonl", "cannot be read"), (tmp_path, "cannot be read"),
        (tmp_path / "empty.jsonl", "no device"),
    ]:
        done = imported(gateway, path)
        assert (done.returncode, done.stdout) == (1, "")
        assert str(path) in done.stderr and reason in done.stderr
    assert attestgate("device", "import", "--config", gateway.conf_path).returncode == 2
