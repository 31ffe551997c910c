"""The tables of docs/scaling.md are what bench/scaling works out, from constants that are true of the program."""

import json
import re
import subprocess
import sys

import pytest

from paths import REPOSITORY

sys.path.append(str(REPOSITORY / "bench"))
from scaling_model import commits, shards, storms  # noqa: E402
from scaling_model.constants import Constants  # noqa: E402

# Where the program has what the model takes for given, and by which factor.
READ = {
    "registry.depth": ("Sources/Registry/PostgreSQL/PostgreSQLSettings.swift", r"var depth = ([\d_]+)", 1),
    "registry.statement_rows": ("Sources/Registry/PostgreSQL/PostgreSQLSettings.swift", r"var rows = ([\d_]+)", 1),
    "registry.known_devices": ("Sources/Registry/PostgreSQL/PostgreSQLSettings.swift", r"var records = ([\d_]+)", 1),
    "registry.waiting_counters": ("Sources/Registry/Process/RegistryLimits.swift", r"var waitingCounters = ([\d_]+)", 1),
    "registry.gathering_us": (
        "Sources/Registry/Process/RegistryClient.swift", r"gatheringTime = TimeSpan.milliseconds\(([\d_]+)\)", 1000),
    "load.keep_alive_seconds": ("conf/attestgate.yaml", r"(?m)^  keep_alive: (\d+)s", 1),
    "storm.handshakes": ("conf/attestgate.yaml", r"(?m)^  handshakes: (\d+)", 1),
    "gateway.sessions": ("Sources/Lifecycle/Process/GatewayProcess.swift", r"sessionLimit = ([\d_]+)", 1),
}


def test_tables_and_plots_are_what_the_model_works_out():
    done = subprocess.run([REPOSITORY / "bench" / "scaling", "--check"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_tables_of_other_constants_are_noticed(tmp_path):
    for name in ("bench/scaling", "bench/scaling_model", "docs/scaling.md", "docs/scaling"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", REPOSITORY / name, target], check=True)
    constants = tmp_path / "bench" / "scaling_model" / "constants.json"
    document = json.loads(constants.read_text())
    document["gateway"]["attested_us"]["value"] += 40
    constants.write_text(json.dumps(document))
    done = subprocess.run([tmp_path / "bench" / "scaling", "--check"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "docs/scaling.md is not what the model says" in done.stderr, done.stderr


@pytest.mark.parametrize("name", READ)
def test_the_models_assumptions_hold_in_the_program(name):
    path, pattern, factor = READ[name]
    found = re.search(pattern, (REPOSITORY / path).read_text())
    assert found, f"{path}: {pattern}"
    group, constant = name.split(".")
    assert getattr(getattr(Constants.read(), group), constant) == int(re.sub("[_,]", "", found[1])) * factor


def test_every_constant_is_used_and_has_a_source():
    model = "".join(path.read_text() for path in (REPOSITORY / "bench" / "scaling_model").glob("*.py"))
    for (_, name), entry in Constants.read().entries.items():
        assert entry["kind"] in ("measured", "documented", "read", "assumed") and entry["source"], name
        # Sizes of tables are put together from the tables' names.
        parts = [name] if not name.endswith("_bytes") else [name, f'"{name.removesuffix("_bytes")}"']
        assert any(part in model for part in parts), name


def test_the_faster_a_disk_the_fewer_counters_share_its_commits():
    batches = [
        shards.Shard(Constants.read().with_factor("place", "disk_sync_us", factor), 10_000, 3, seed).run(5_000)["batch"]
        for factor, seed in ((0.2, 1), (1, 2), (5, 3))]
    assert batches == sorted(batches) and batches[-1] > 2 * batches[0]


def test_a_statement_never_has_more_rows_than_the_program_sends():
    constants = Constants.read().with_value("registry", "statement_rows", 4)
    assert shards.Shard(constants, 2_000, 3, 1).run(2_000)["batch"] <= 4


def test_each_request_of_the_simulated_machine_has_its_counter_in_one_commit():
    machine = commits.Machine(Constants.read(), "file", 2_000, 1).run(500_000)
    assert machine.done <= machine.counters <= 1_000 and machine.counters > 950


def test_phones_that_find_no_place_come_in_later_and_none_is_forgotten():
    said = storms.connecting(Constants.read(), 1_000_000, 20, 20, spread=1)
    assert said["recovered"] and said["points"][-1][1] >= 990_000
    assert said["recovered"] > 1_000_000 / said["capacity"]


def test_constants_are_taken_from_results_of_the_bench():
    constants = Constants.read()
    taken = [{"commits_per_second": 500.0, "batch": 3.0}, {"commits_per_second": 700.0, "batch": 5.0}]
    constants.take({"machine": {"cpu": "one"}, "rows": [
        {"row": "resumed", "server": "attestgate", "variant": "cache",
         "samples": [{"value": value} for value in (100, 300, 200)]},
        {"row": "resumed", "server": "nginx", "variant": "cache", "samples": [{"value": 1}]}]})
    constants.take({"syncs": [{"p50": 40}, {"p50": 60}], "rows": [
        {"registry": "file", "load": 1, "pairs": [[{}, one] for one in taken]}]})
    after = Constants(constants.document)
    assert after.gateway.resumed_us == 200 and after.entries["gateway", "resumed_us"]["source"] == "bench/run --only resumed, one"
    assert after.registry.sync_us == 50 and after.entries["registry", "sync_us"]["kind"] == "measured"
    assert after.validation["measured"]["file"]["1.0"] == {"commits_per_second": 600.0, "batch": 4.0}
