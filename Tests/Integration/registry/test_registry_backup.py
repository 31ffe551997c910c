"""`attestgate registry export` and `import`: a backup made under load, and what may and may not pass after it was put back."""

import hashlib
import json
import resource
import shutil
import stat
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from support.attested import OTHER_APP, ROUTES
from support.client import get
from support.denials import assert_denied
from support.enrolling_phone import MTLSKey, error_of
from support.enrolment import REFUSED, Enrolling, admission_token
from support.exposition import ask
from support.gateway import APP, Gateway
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.phone import HardwareKey, Phone
from support.pki import attestgate
from support.postgresql import PostgreSQL
from support.waiting import eventually

APPS = [{"id": APP, "environment": "simulator", "counter": "window 1024"}, {"id": OTHER_APP, "environment": "simulator", "counter": "strict"}]

# Of the syncs of an import, where it is killed: every so many.
STEP = 4

ANOTHER = ("registry: it is another store than before: repeated all revocations and ends of bindings from the revocation "
           "journal, and started a new epoch: all earlier challenges are refused\n")


@pytest.fixture
def database():
    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture
def start(pki, own_upstream, tmp_path):
    """Starts gateways with registries of their own, and one secret."""
    started = []

    def start(running=True, **settings):
        directory = tmp_path / f"gateway-{len(started)}"
        directory.mkdir()
        if started and Path(started[0].conf["registry"]["secret"]).exists():
            shutil.copy(started[0].conf["registry"]["secret"], directory / "secret")
        made = Gateway(directory, pki, {"service": own_upstream.address}, ROUTES, apps=APPS, **settings)
        started.append(made)
        made.write_conf()
        return made.start() if running else made
    yield start
    for made in started:
        made.stop()


def exported(gateway, path, **options):
    return attestgate("registry", "export", "--config", gateway.conf_path, path, **options)


def imported(gateway, path, **options):
    """Where there is a journal, the flag does nothing."""
    return attestgate("registry", "import", "--config", gateway.conf_path, "--accept-lost-revocations", path, **options)


def export(gateway, path):
    done = exported(gateway, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wrote {path}: ")
    return path


def take_over(gateway, path):
    done = imported(gateway, path)
    assert done.returncode == 0, done.stderr
    # A file has been looked at by its witness, a database will be, by the gateway.
    assert done.stderr in ("", ANOTHER) or "there is no revocation journal at " in done.stderr
    assert done.stdout.startswith("imported the export of ")


def body(path):
    """All but the first and the last line, which say when it was made, and of what."""
    return path.read_text().splitlines()[1:-1]


@contextmanager
def loaded(phones):
    """Within the block requests of these phones stream in; each must pass."""
    stop, statuses = threading.Event(), []

    def load(phone):
        with phone.connect() as client:
            while not stop.is_set():
                statuses.append(client.exchange(phone.request(path="/load")).status)
    threads = [threading.Thread(target=load, args=[phone]) for phone in phones]
    for phone in phones:
        phone.challenge()
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: len(statuses) > len(phones), "requests to pass")
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(statuses) == {200}


def test_a_backup_under_load_lets_no_proof_pass_twice(start, pki, tmp_path):
    gateway = start(workers=2)
    phones = [Phone(gateway, pki.phone(f"backup-{number}")) for number in range(3)]
    revoked = Phone(gateway, pki.phone("backup-revoked"))
    gateway.device_command("revoke", str(revoked.number))
    with loaded(phones):
        path = export(gateway, tmp_path / "backup.jsonl")
        devices = [json.loads(line)["device"] for line in body(path)]
        proofs = [phone.request(path="/once") for phone in phones]
        for phone, data in zip(phones, proofs):
            with phone.connect() as client:
                assert client.exchange(data).status == 200
    assert [device["hardware_key"] for device in devices] == [p.key.key_id.hex() for p in [*phones, revoked]]
    assert all(device["counter"]["highest"] > 0 for device in devices[:3]) and "revoked_at" in devices[3]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for outcome in ["begun", "done"]:
        assert gateway.errors.count(f"registry export {outcome}, by user ") == 1
    gateway.halt()
    restored = start(running=False)
    take_over(restored, path)
    restored.start()
    for phone, data in zip(phones, proofs):
        phone.gateway, phone.kept = restored, None
        with phone.connect() as client:
            assert_denied(restored, client.exchange(data), "challenge_required", 401)
            assert client.exchange(phone.request(path="/after")).status == 200
    listed = json.loads(restored.device_command("list", "--json"))["devices"]
    assert [device["state"] for device in listed] == ["active"] * 3 + ["revoked"]
    revoked.gateway = restored
    with revoked.connect() as client:
        assert_denied(restored, client.exchange(get("/device")), "device_revoked", 403)


def test_a_file_becomes_a_database_and_a_database_a_file(start, pki, tmp_path, database):
    gateway = start()
    phone = Phone(gateway, pki.phone("moving"))
    revoked = Phone(gateway, pki.phone("moving-revoked"))
    with phone.connect() as client:
        data = phone.request(path="/once")
        assert client.exchange(data).status == 200
    gateway.device_command("revoke", str(revoked.number))
    gateway.halt()
    path = export(gateway, tmp_path / "file.jsonl")
    cluster = start(running=False, registry={"postgresql": database.conf})
    take_over(cluster, path)
    assert body(export(cluster, tmp_path / "cluster.jsonl")) == body(path)
    cluster.start()
    phone.gateway, phone.kept = cluster, None
    with phone.connect() as client:
        assert_denied(cluster, client.exchange(data), "challenge_required", 401)
        assert client.exchange(phone.request(path="/after")).status == 200
    # Through the gateway, and from the database beside it.
    online = body(export(cluster, tmp_path / "online.jsonl"))
    assert json.loads(online[0])["device"]["counter"]["highest"] == phone.counter
    done = imported(cluster, path)
    assert done.returncode == 1 and "the database is in use" in done.stderr
    cluster.halt()
    offline = export(cluster, tmp_path / "offline.jsonl")
    assert body(offline) == online
    back = start(running=False)
    take_over(back, offline)
    assert body(export(back, tmp_path / "back.jsonl")) == online
    back.start()
    phone.gateway, phone.kept = back, None
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/back")).status == 200


def test_an_import_beside_a_gateway_is_refused(start, pki, tmp_path):
    gateway = start()
    Phone(gateway, pki.phone("beside"))
    path = export(gateway, tmp_path / "backup.jsonl")
    done = imported(gateway, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {gateway.conf['registry']['path']} is in use by another process: stop the gateway first\n"
    gateway.halt()
    done = imported(gateway, path)
    assert (done.returncode, done.stdout) == (1, "") and "already has devices" in done.stderr
    assert body(export(gateway, tmp_path / "same.jsonl")) == body(path)


def test_a_killed_import_leaves_all_devices_or_no_usable_registry(start, pki, tmp_path):
    gateway = start()
    Phone(gateway, pki.phone("killed"))
    path = export(gateway, tmp_path / "backup.jsonl")
    gateway.halt()
    witness = {file: file.read_bytes() for file in gateway.directory.glob("secret.revocations*")}

    def killed_import(place):
        """- Returns: whether it ended well before."""
        calls = "fdatasync,fsync"
        return subprocess.run(
            ["strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", f"trace={calls}",
             "-e", f"inject={calls}:signal=KILL:when={place}",
             BINARY, "registry", "import", "--config", gateway.conf_path, path],
            capture_output=True, env=ENVIRONMENT, timeout=PATIENCE).returncode == 0

    def devices(place):
        """Whether they are there; if not, nobody takes what there is for a registry."""
        found = attestgate("device", "list", "--json", "--config", gateway.conf_path)
        if found.returncode == 0:
            assert len(json.loads(found.stdout)["devices"]) == 1, f"killed at sync {place}"
            return True
        assert "attestgate registry import" in found.stderr, found.stderr
        return False

    place, are_left = STEP, []
    while True:
        for file in gateway.directory.glob("registry.sqlite*"):
            file.unlink()
        for file, content in witness.items():
            file.write_bytes(content)
        if killed_import(place):
            break
        are_left.append(devices(place))
        # Nor does what was left by one become a registry by another that is killed.
        if not are_left[-1] and not killed_import(place):
            devices(place)
        place += STEP
    assert are_left == sorted(are_left) and len(are_left) > 3
    assert devices(place)


def test_an_accepted_loss_of_revocations_is_reported_before_it_takes_effect(
        start, pki, tmp_path):
    """Killed at any sync: either everything is there, and the loss was reported; or nothing is, and the next import needs the option."""
    gateway = start()
    Phone(gateway, pki.phone("accepted"))
    path = export(gateway, tmp_path / "backup.jsonl")
    gateway.halt()
    registry = Path(gateway.conf["registry"]["path"])
    journal = Path(f"{gateway.conf['registry']['secret']}.revocations")
    mark = Path(f"{journal}.mark")
    of_before = mark.read_bytes()
    command = [BINARY, "registry", "import", "--config", gateway.conf_path]
    loss, asking = "is NOT revoked: repeat it", "there is no revocation journal at "

    def run(*arguments):
        return subprocess.run([*arguments, path], capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE)
    for has_mark in (False, True):
        place, taken = 1 + STEP * has_mark, []
        while True:
            for pattern in ("registry.sqlite*", "secret.revocations*"):
                for file in registry.parent.glob(pattern):
                    file.unlink()
            if has_mark:
                mark.write_bytes(of_before)
            calls = "fdatasync,fsync"
            done = run(
                "strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", f"trace={calls}",
                "-e", f"inject={calls}:signal=KILL:when={place}", *command, "--accept-lost-revocations")
            bare = run(*command)
            assert bare.returncode == 1 and ("already has devices" if journal.exists() else asking) in bare.stderr, bare.stderr
            listed = attestgate("device", "list", "--json", "--config", gateway.conf_path)
            was_made = journal.exists()
            again = run(*command, "--accept-lost-revocations")
            taken.append("already has devices" in again.stderr)
            if taken[-1]:
                assert loss in done.stderr, f"killed at sync {place}: {done.stderr}"
                # Where there was a journal before, the start reports it once more.
                assert listed.returncode == 0 or has_mark and "attestgate run --accept-lost-revocations" in listed.stderr, listed
            else:
                assert listed.returncode == 1, f"killed at sync {place}: taken for a registry"
                assert not was_made, f"killed at sync {place}"
                assert again.returncode == 0 and loss in again.stderr, again.stderr
            if done.returncode == 0:
                break
            place += 2 * STEP
        assert taken == sorted(taken) and taken.count(False) > 1, taken


def test_a_forged_export_position_shows_no_device_without_an_audit_line(start):
    gateway = start()

    def lines():
        return gateway.errors.count('"act":"registry_export"')

    def page(place):
        status, _, content = ask(gateway, f"/registry/export?from={place}")
        assert status == 200
        return json.loads(content.splitlines()[-1])["next"]
    first = "devices-" + 16 * "0"
    following = page(first)
    eventually(lambda: lines() == 1, "the page to be logged")
    # A page that continues an export is no further export, unless it is asked for a second time.
    assert page(following) and lines() == 1
    page(following)
    eventually(lambda: lines() == 2, "the page to be logged")


def test_an_export_overwrites_no_file_and_leaves_no_partial_one(start, pki, tmp_path):
    gateway = start()
    Phone(gateway, pki.phone("never"))
    place = tmp_path / "backups"
    place.mkdir()
    (place / "old").write_text("precious")
    (place / "link").symlink_to(place / "nowhere")
    there = "already exists and is not replaced"
    for name, reason in [("old", there), ("link", there), ("none/new", "cannot create")]:
        done = exported(gateway, place / name)
        assert (done.returncode, done.stdout) == (1, "") and reason in done.stderr
    assert (place / "old").read_text() == "precious"
    # A disk that is full: for the file of a process, which then has no name, and for a device that is.
    done = subprocess.run(
        [BINARY, "registry", "export", "--config", gateway.conf_path, place / "full"], capture_output=True, text=True,
        timeout=PATIENCE, env=ENVIRONMENT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert done.returncode != 0 and not (place / "full").exists()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [BINARY, "registry", "export", "--config", gateway.conf_path], stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=PATIENCE, env=ENVIRONMENT)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr
    gateway.halt()
    gateway.conf["registry"]["path"] = str(tmp_path / "wrong.sqlite")
    gateway.write_conf()
    done = exported(gateway, place / "wrong")
    assert done.returncode == 1 and "the registry is missing or empty" in done.stderr
    assert sorted(path.name for path in place.iterdir() if not path.name.startswith("full.")) == ["link", "old"]
    assert attestgate("registry", "import", "--config", gateway.conf_path).returncode == 2


def altered(lines, number, there, instead):
    assert there in lines[number]
    return [*lines[:number], lines[number].replace(there, instead), *lines[number + 1:]]


def sealed(lines):
    """The same with a last line that fits them."""
    end = json.loads(lines[-1])
    end["end"]["sha256"] = hashlib.sha256("".join(line + "\n" for line in lines[:-1]).encode()).hexdigest()
    return [*lines[:-1], json.dumps(end, separators=(",", ":"))]


def tagged(line):
    """The line of a device with an attestation that has a tag, as those of Android phones."""
    device = json.loads(line)
    device["device"]["attestation"] = {"digest": "00" * 32, "tag": "07" * 16}
    return json.dumps(device, separators=(",", ":"))


def test_a_truncated_changed_oversized_or_foreign_file_is_refused(start, pki, tmp_path):
    gateway = start()
    phones = [Phone(gateway, pki.phone(f"file-{number}")) for number in range(3)]
    good = export(gateway, tmp_path / "good.jsonl").read_text().splitlines()
    key = phones[0].key.key_id.hex()
    other = "0" * 64
    cases = {
        "cut": (good[:-1], f"{len(good)}: the last line is missing"),
        "torn": ([*good[:-2], good[-2][:100]], f"{len(good) - 1}: "),
        "a line less": ([*good[:2], *good[3:]], "4: the counts in the last line are wrong"),
        "changed": (altered(good, 1, '"highest":0', '"highest":7'), "5: the checksum of the earlier lines is wrong: the file was changed"),
        "another key": (sealed(altered(good, 1, key, other)), "2: 'hardware_key' is not the SHA-256 of 'point'"),
        "twice": (sealed([*good[:-2], good[1], good[-1]]), "4: the hardware key is in an earlier line"),
        "a tag twice": (sealed([good[0], tagged(good[1]), tagged(good[2]), *good[3:]]),
                        f"3: the tag {'07' * 16} is in an earlier line: two devices cannot have it"),
        "another platform": (sealed(altered(good, 1, '"platform":"ios"', '"platform":"android"')),
                             "2: 'platform' is not that of the app"),
        "more": ([*good, good[1]], "6: there is data after the last line"),
        "no head": (good[1:], "1: not an export of a registry: its first line is not a head"),
        "too large": (["x" * 600_000], "1: the line is longer"),
        "another version": (altered(good, 0, '"version":2', '"version":4'), "1: written in version 4"),
        "foreign": (["hello", "world"], "1: not a JSON object of an export"),
        "empty": ([], "1: the last line is missing"),
        "not UTF-8": (["\udcff\udcfe"], "1: not a JSON object of an export"),
    }
    target = start(running=False)
    for name, (lines, reason) in cases.items():
        path = tmp_path / "bad.jsonl"
        path.write_bytes("".join(line + "\n" for line in lines).encode(errors="surrogateescape"))
        for source, given in [(path, None), ("-", path)]:
            with open(given or "/dev/null") as stdin:
                done = subprocess.run(
                    [BINARY, "registry", "import", "--config", target.conf_path, "--accept-lost-revocations", source], stdin=stdin,
                    capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
            assert (done.returncode, done.stdout) == (1, ""), name
            message, *_, last = done.stderr.splitlines()
            assert message.startswith(f"{path if given is None else 'standard input'}:{reason}"), (name, done.stderr)
            assert last == "Error: nothing was imported"
    # A point that is on no curve, under its own hash.
    point = json.loads(good[1])["device"]["point"]
    off = "04" + "11" * 64
    lines = altered(altered(good, 1, point, off), 1, key, hashlib.sha256(bytes.fromhex(off)).hexdigest())
    path.write_text("\n".join(sealed(lines)) + "\n")
    assert "2: 'point' is not on P-256" in imported(target, path).stderr
    # At most twenty are reported.
    path.write_text("\n".join([good[0], *["{}"] * 50]) + "\n")
    assert len(imported(target, path).stderr.splitlines()) == 21
    assert imported(target, tmp_path / "nowhere").stderr == f"Error: {tmp_path / 'nowhere'} cannot be read\n"
    # Nothing of all that is there, and the good one still is taken, by a pipe too.
    path.write_text("\n".join(good) + "\n")
    with open(path) as stdin:
        done = imported(target, "-", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert body(export(target, tmp_path / "taken.jsonl")) == good[1:-1]


@pytest.fixture
def by_token(pki, own_upstream, tmp_path):
    issuer = MTLSKey()
    path = tmp_path / "issuer.pem"
    path.write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    enrolling = Enrolling(tmp_path / "enrolling", pki, own_upstream, enrolment={
        "admission": "token", "token": {"issuer": "https://login.example", "keys": [str(path)]}})
    yield enrolling.start(), issuer
    enrolling.stop()


def test_no_used_admission_token_passes_after_restoring_an_old_backup(by_token, pki, tmp_path):
    enrolling, issuer = by_token
    gateway = enrolling.gateway

    def come(key=None, **claims):
        phone, mtls = enrolling.phone(), key or MTLSKey()
        assert phone.initialize().status == 204
        token = admission_token(issuer, mtls, enrolling.provider, **claims)
        return phone, mtls, token, phone.bind(mtls, claims={"admission_token": token})
    before, mtls, first, response = come(jti="first")
    identity = before.identity(tmp_path, mtls, response)
    path = export(gateway, tmp_path / "backup.jsonl")
    _, late_key, second, response = come(jti="second")
    assert response.status == 200
    gateway.halt()
    # The old one, as if its disk were gone.
    registry = gateway.conf["registry"]["path"]
    shutil.move(registry, registry + ".gone")
    take_over(gateway, path)
    gateway.start()
    # Devices that were registered before keep working.
    requesting = before.requesting(gateway, identity)
    with requesting.connect() as client:
        assert client.exchange(requesting.request(path="/a")).status == 200
    # The same tokens, each by the key it was made for.
    for key, token in [(mtls, first), (late_key, second)]:
        phone = enrolling.phone()
        assert phone.initialize().status == 204
        assert error_of(phone.bind(key, claims={"admission_token": token})) == REFUSED
    # No use that was refused is written down.
    again = body(export(gateway, tmp_path / "again.jsonl"))
    assert [line for line in again if "used_token" in line] == [line for line in body(path) if "used_token" in line]


def sealed_export(path, count, receipt=0):
    """An export of so many devices, with receipts of so many bytes, written from the manual."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        def put(line):
            data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            digest.update(data)
            file.write(data)
        put({"format": "attestgate-registry", "version": 1, "exported_at": 1_763_800_000, "store": "00" * 16,
             "revocation_list": 0, "tokens_refused_until": 0})
        for number in range(count):
            key = HardwareKey()
            put({"device": {
                "hardware_key": key.key_id.hex(), "app": APP, "platform": "ios", "environment": "simulator",
                "point": key.point.hex(), "registered_at": 1_763_000_000, "activated_at": 1_763_000_001,
                "shown_extensions": 0, "counter": {"highest": number, "window": "ff" * 128},
                "bindings": [{"key": hashlib.sha256(b"%d" % number).hexdigest(), "created_at": 1_763_000_001}],
                "attestation": {"digest": "ab" * 32}, "receipt": {"content": "7f" * receipt, "failures": 0}}})
        put({"end": {"devices": count, "certificates": 0, "used_tokens": 0, "revoked_subjects": 0, "barred_keys": 0,
                     "sha256": digest.hexdigest()}})


def memory(*arguments):
    """The most that a command had resident, in KiB."""
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run(
        ["/usr/bin/python3", "-c", script, *map(str, arguments)], capture_output=True, text=True,
        timeout=20 * PATIENCE, env=ENVIRONMENT)
    code, size = map(int, done.stdout.split())
    assert code == 0, done.stderr
    return size


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    paths = {count: tmp_path_factory.mktemp("exports") / f"{count}.jsonl" for count in [100, 400, 1_000]}
    for count, path in paths.items():
        # The largest receipts there are.
        sealed_export(path, count, 16_384)
    return paths


# In MiB, half of what keeping everything takes. A file has 16 MiB of memory for its pages besides.
@pytest.mark.parametrize("kind, most, growth", [("file", 1_000, 20), ("database", 400, 8)])
def test_memory_does_not_grow_with_the_size_of_a_registry(start, exports, tmp_path, request, kind, most, growth):
    """Each line is read and forgotten: of some hundred devices more, with 33 KiB of file and half as much in the registry each, nothing is kept."""
    figures = {}
    for count, path in ((count, exports[count]) for count in (100, most)):
        again, settings = tmp_path / f"{count}.again", {}
        if kind == "database":
            server = PostgreSQL()
            request.addfinalizer(server.close)
            settings["registry"] = {"postgresql": server.conf}
        target = start(running=False, **settings)
        figures[count] = (
            memory(
                BINARY, "registry", "import", "--config", target.conf_path, "--accept-lost-revocations", path),
            memory(BINARY, "registry", "export", "--config", target.conf_path, again))
        assert body(again) == body(path)
    print(f"resident KiB for import and export: {figures}")
    for small, large in zip(*figures.values()):
        assert large - small < growth * 1024
