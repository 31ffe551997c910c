"""What a run leaves behind: one JSON file with every sample, its tables in Markdown, and plots."""

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import beside
import markup
import plots
import report
import tables
import targets

PLOTS = {"ratios": plots.ratios, "latency": plots.latency, "devices": plots.devices}
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


@dataclass
class Found:
    """A run's samples, and what they were taken with."""

    machine: dict
    settings: dict
    servers: list
    # By row, server and variant.
    results: dict
    failures: list
    registry: dict | None = None
    # A file that bench/durability has written.
    durability: Path | None = None
    # The committed figures of bench/instructions by row, and `assertion` of bench/micro; none where they are not comparable.
    instructions: dict = field(default_factory=dict)

    @property
    def durable_throughput(self):
        """Of a registry in a file at full load: requests a second, in parts of those without durability; of each round."""
        if self.durability is None:
            return []
        rows = json.loads(self.durability.read_text())["rows"]
        return [
            durable["requests_per_second"] / base["requests_per_second"]
            for row in rows if row["registry"] == "file" and row["load"] == 1 for base, durable in row["pairs"]]


def read(path):
    """What `write` has written."""
    data = json.loads(Path(path).read_text())
    results = {(row["row"], row["server"], row["variant"]): row["samples"] for row in data["rows"]}
    durability = data.get("durability")
    return Found(
        data["machine"], data["settings"], data["servers"], results, data["failures"], data["registry"],
        Path(path).parent / durability if durability else None, data["instructions"])


def write(found, directory):
    """- Returns: the JSON file. Tables and plots have its name with other endings."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / time.strftime("%Y%m%dT%H%M%SZ.json", time.gmtime())
    rows = [
        {"row": row, "server": server, "variant": variant, "samples": samples}
        for (row, server, variant), samples in found.results.items()]
    path.write_text(json.dumps({
        "machine": found.machine, "settings": found.settings, "servers": found.servers, "rows": rows, "registry": found.registry,
        "durability": found.durability.name if found.durability else None, "failures": found.failures,
        "instructions": found.instructions}, indent=2) + "\n")
    path.with_suffix(".md").write_text("# Results\n\n" + text(found) + "\n")
    for name, plot in drawn(found).items():
        path.with_name(f"{path.stem}-{name}.svg").write_text(plot)
    return path


def drawn(found):
    """The plots that there is something for, by name."""
    made = {name: plot(found) for name, plot in PLOTS.items()}
    return {name: plot for name, plot in made.items() if plot}


def heading(found):
    settings, took = found.settings, found.settings.get("took_seconds")
    return markup.paragraph(
        f"{report.machine_line(found.machine)}. "
        f"`bench/run{' --full' if settings.get('full') else ''}`, {settings.get('date', 'undated')}: "
        f"{settings['rounds']} rounds of {settings['seconds']:g} s, {settings['idle_connections']} idle connections"
        + (f", in {took / 60:.0f} min." if took else "."))


def text(found, has_targets=True):
    """All results of a run, in Markdown. The page that results are published beside has the targets itself."""
    results, registry = found.results, found.registry or {}
    parts = [
        heading(found), targets.table(found) if has_targets else "", report.table(results, found.servers),
        report.versions(results, found.servers),
        report.attested(results, registry.get("counters"), registry.get("commits"), registry.get("place")),
        beside.report(results), tables.durability(found), tables.large(results), tables.latency(results), tables.devices(results),
        tables.saturation(results)]
    return "\n\n".join(part for part in parts if part)


def publish(found, directory):
    """Replaces what another run has left there, and the part of the page beside it that shows the targets."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.svg"):
        old.unlink()
    (directory / "results.md").write_text("# Results\n\n" + text(found, has_targets=False) + "\n")
    made = drawn(found)
    for name, plot in made.items():
        (directory / f"{name}.svg").write_text(plot)
    page = directory.with_suffix(".md")
    if page.exists() and BEGIN in (before := page.read_text()):
        images = [f"![{plots.TITLES[name]}]({directory.name}/{name}.svg)" for name in made]
        part = "\n\n".join([heading(found), targets.table(found), *images, f"All of it: [results]({directory.name}/results.md)."])
        page.write_text(re.sub(
            f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n\n{part}\n\n{END}", before, flags=re.DOTALL))
