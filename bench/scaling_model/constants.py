"""What the model is made of: every number that no other follows from, with its unit and where it comes from.

kind: "measured" by a command of ours, "documented" (measured once, and stated in docs/), "read" in our sources or conf file,
"assumed" about the world."""

import json
import statistics
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
PATH = Path(__file__).with_name("constants.json")
# Rows of bench/run and the constants that they measure.
OF_ROW = {
    "keepalive": "keepalive_us", "attested": "attested_us", "handshake": "known_us", "first-seen": "first_seen_us",
    "resumed": "resumed_us"}


class Constants:
    """`constants.gateway.attested_us` is a number; `entries` has what is known of each."""

    def __init__(self, document):
        self.document = document
        self.validation = document["validation"]
        self.seed = self.validation["seed"]
        self.entries = {
            (group, name): entry for group, names in document.items() if group != "validation" for name, entry in names.items()}
        for group in {group for group, _ in self.entries}:
            setattr(self, group, SimpleNamespace(
                **{name: entry["value"] for (of, name), entry in self.entries.items() if of == group}))

    @classmethod
    def read(cls):
        return cls(json.loads(PATH.read_text()))

    def with_factor(self, group, name, factor):
        """The same world with one number another."""
        return self.with_value(group, name, self.document[group][name]["value"] * factor)

    def with_value(self, group, name, value):
        document = json.loads(json.dumps(self.document))
        document[group][name]["value"] = value
        other = Constants(document)
        other.seed = self.seed
        return other

    def take(self, results):
        """- Parameter results: what bench/run, bench/durability or the probe of the database has measured."""
        when = f", {results['machine']['cpu']}" if "machine" in results else ""
        for row in results.get("rows", []):
            if row.get("row") in OF_ROW and row["server"] == "attestgate":
                median = statistics.median(sample["value"] for sample in row["samples"])
                self._set("gateway", OF_ROW[row["row"]], median, f"bench/run --only {row['row']}{when}")
            if row.get("row") == "attested":
                median = statistics.median(sample["verification_microseconds"] for sample in row["samples"])
                self._set("gateway", "verification_us", median, f"openssl speed, in the same run as attested{when}")
            if "registry" in row and f"{float(row['load'])}" in self.validation["measured"].get(row["registry"], {}):
                durable = [pair[1] for pair in row["pairs"]]
                self.validation["measured"][row["registry"]][f"{float(row['load'])}"] = {
                    name: round(statistics.median(one[name] for one in durable), 1) for name in ("commits_per_second", "batch")}
                self.validation["source"] = f"bench/durability{when}"
        if "syncs" in results:
            median = statistics.median(taken["p50"] for taken in results["syncs"])
            self._set("registry", "sync_us", median, f"bench/durability: one bare fdatasync{when}", "measured")
        if "bytes_per_device" in results:
            self._take_database(results)

    def _take_database(self, probe):
        cpu = {int(batch): taken["cpu"] for batch, taken in probe["batches"].items()}
        # cost of a counter = statement / batch + row
        statement = (cpu[1] - cpu[100]) / (1 - 1 / 100)
        log = {int(batch): taken["log"] for batch, taken in probe["batches"].items()}
        values = {
            "statement_us": statement, "row_us": max(0.1, cpu[1] - statement), "log_bytes": log[10],
            "first_touch_bytes": probe["first_touch"]["log"], "hot_share": probe["hot_share"]}
        names = {"issued_certificate": "certificate"}
        values |= {f"{names.get(table, table)}_bytes": size for table, size in probe["bytes_per_device"].items()}
        for name, value in values.items():
            self._set("registry", name, value, None)

    def _set(self, group, name, value, source, kind=None):
        entry = self.document[group][name]
        entry["value"] = float(f"{value:.4g}")
        entry["source"] = source or entry["source"].replace("; busy machine", "")
        entry["kind"] = kind or entry["kind"]

    def write(self):
        """One constant on a line, so that a change of one shows as one."""
        groups = []
        for group, names in self.document.items():
            if group == "validation":
                groups.append(f"  {json.dumps(group)}: {json.dumps(names)}")
                continue
            lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in names.items())
            groups.append(f"  {json.dumps(group)}: {{\n{lines}\n  }}")
        PATH.write_text("{\n" + ",\n".join(groups) + "\n}\n")
