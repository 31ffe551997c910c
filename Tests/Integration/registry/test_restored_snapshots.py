"""Registry, journal and secret are put back together, or a copy that is too young to be noticed: no earlier proof passes.

Each start on a file draws a fresh epoch, durable before it serves. A reload, an upgrade and a start on a database keep theirs.
"""

import json
import shutil
import time

import pytest

from support.client import Client
from support.denials import assert_denied, assert_used_before_the_start
from support.http2_client import send
from support.phone import Phone
from support.pki import attestgate
from support.taking_over import adopt_orphans, has_ended, upgrade

PROOFS = 20
# Until a registry at rest has moved its log into the file, and has marked that.
REST = 1.5


def copy_files(gateway, target, names=("registry.sqlite", "registry.sqlite-wal", "secret.revocations",
                                       "secret.revocations.mark", "secret")):
    """Of a gateway that runs or not, as a snapshot of its disk has them."""
    target.mkdir()
    for name in names:
        if (gateway.directory / name).exists():
            shutil.copy2(gateway.directory / name, target)


def put_back(gateway, source):
    """What the copy does not have was not there."""
    for path in [*gateway.directory.glob("registry.sqlite*"), *gateway.directory.glob("secret.revocations*")]:
        if not path.name.endswith(".lock"):
            path.unlink()
    for path in source.iterdir():
        shutil.copy2(path, gateway.directory)


def pass_all(attested, path="/once"):
    """- Returns: proofs that have passed, and their challenge is still fresh."""
    sent = [attested.phone.request(path=path) for _ in range(PROOFS)]
    assert send(attested, sent) == [None] * PROOFS
    return sent


def assert_none_passes_again(attested, sent):
    phone = attested.phone
    with attested.nothing_forwarded_at_all():
        answers = send(attested, sent)
        assert answers == ["challenge_required"] * len(sent), f"{answers.count(None)} of {len(sent)} passed twice"
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/after")).status == 200


@pytest.mark.parametrize("end", ["halt", "crash"])
def test_files_that_are_put_back_together_let_no_proof_pass_twice(start_attested, tmp_path, end):
    """As a snapshot of a machine is restored: neither file is older than another."""
    attested = start_attested(counter="window 1024")
    gateway = attested.gateway
    attested.phone.challenge()
    gateway.halt()
    copy_files(gateway, tmp_path / "copy")
    gateway.start()
    # Of the challenge that the copy's gateway would hand out; the phone has its own of this start.
    sent = pass_all(attested)
    getattr(gateway, end)()
    put_back(gateway, tmp_path / "copy")
    gateway.start()
    assert "registry: " not in gateway.errors, "this must go unnoticed, or it shows nothing"
    assert_none_passes_again(attested, sent)


def test_a_snapshot_of_a_running_gateway_lets_no_proof_pass_twice(start_attested, tmp_path):
    attested = start_attested(counter="window 1024")
    gateway = attested.gateway
    attested.phone.challenge()
    # At rest: a snapshot holds all files of one moment, which a copy of files that change does not.
    time.sleep(REST)
    copy_files(gateway, tmp_path / "copy")
    sent = pass_all(attested)
    gateway.crash()
    put_back(gateway, tmp_path / "copy")
    gateway.start()
    assert "registry: " not in gateway.errors
    assert_none_passes_again(attested, sent)


def spoil_until_unnoticed(attested, keep, spoil):
    """The mark is written each half second: it does not tell what `spoil` does from what a kill leaves, unless it was just written.
    None passes in either case."""
    gateway = attested.gateway
    for number in range(12):
        attested.phone.challenge()
        time.sleep(REST)
        keep(number)
        sent = pass_all(attested)
        gateway.crash()
        spoil(number)
        gateway.start()
        assert_none_passes_again(attested, sent)
        if "registry: " not in gateway.errors:
            return
    raise AssertionError("each was noticed: this machine is too slow to show anything")


def test_a_registry_copied_within_half_a_second_of_a_kill_lets_no_proof_pass_twice(start_attested, tmp_path):
    attested = start_attested(counter="window 1024")

    def put_registry_back(number):
        for path in (tmp_path / f"copy-{number}").iterdir():
            shutil.copy2(path, attested.gateway.directory)
    spoil_until_unnoticed(
        attested, lambda number: copy_files(
            attested.gateway, tmp_path / f"copy-{number}", ("registry.sqlite", "registry.sqlite-wal")),
        put_registry_back)


def test_a_deleted_log_lets_no_proof_pass_twice(start_attested):
    attested = start_attested(counter="window 1024")
    # At rest the log was moved into the file: it holds the counters alone.
    spoil_until_unnoticed(
        attested, lambda _: None, lambda _: (attested.gateway.directory / "registry.sqlite-wal").unlink())


def test_a_reload_and_an_upgrade_keep_challenges(start_attested):
    adopt_orphans()
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    challenge, sent = phone.challenge(), []

    def passes():
        with phone.connect() as client:
            for data in sent:
                assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
            sent.append(phone.request(path="/a", nonce=challenge))
            assert client.exchange(sent[-1]).status == 200
    passes()
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    passes()
    for _ in range(2):
        assert has_ended(gateway, upgrade(gateway))
        passes()
    assert "epoch_changed_at" not in registry_status(gateway)


def registry_status(gateway):
    return json.loads(attestgate("status", "--config", gateway.conf_path, "--json").stdout)["registry"]


def test_an_upgrade_to_another_file_keeps_no_challenge(start_attested, tmp_path):
    """The conf file that the new process reads names a copy of the registry: nobody hands that over."""
    adopt_orphans()
    attested = start_attested(counter="window 1024")
    gateway = attested.gateway
    attested.phone.challenge()
    time.sleep(REST)
    copy_files(gateway, tmp_path / "copy")
    sent = pass_all(attested)
    gateway.conf["registry"]["path"] = str(tmp_path / "copy" / "registry.sqlite")
    gateway.write_conf()
    assert has_ended(gateway, upgrade(gateway))
    assert_none_passes_again(attested, sent)


def test_a_start_on_a_database_keeps_the_challenges_of_other_gateways(start_sharing, pki):
    first = start_sharing()
    phone = Phone(first, pki.phone("shared-epoch"))
    challenge = phone.challenge()
    second = start_sharing()
    for gateway in (first, second, second.halt().start(), first):
        with Client(gateway, phone.identity) as client:
            assert client.exchange(phone.request(path="/a", nonce=challenge)).status == 200


def test_a_start_refuses_each_earlier_proof_and_its_counter(start_attested):
    attested = start_attested(counter="window 1024")
    sent = pass_all(attested)
    for end in ("halt", "crash"):
        getattr(attested.gateway, end)()
        attested.gateway.start()
        with attested.nothing_forwarded_at_all(), attested.phone.connect() as client:
            assert_used_before_the_start(attested.gateway, client, attested.phone, *sent[:3])
