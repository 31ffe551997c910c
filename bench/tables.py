"""What the main table has no columns for."""

import statistics

import markup
from latency import PERCENTILES
from report import summarise


def median(samples, *names):
    """Of a member of each sample, found by its names one after the other."""
    def value(sample):
        for name in names:
            sample = sample[name]
        return sample
    return statistics.median(value(sample) for sample in samples)


def large(results):
    rows = [
        [row, server, f"{median(samples, 'megabytes_per_second'):.0f}", f"{median(samples, 'value'):.2f}",
         f"{median(samples, 'server_share'):.0%}", f"{median(samples, 'load_share'):.0%}"]
        for (row, server, _), samples in results.items() if row.startswith(("download", "upload"))]
    return markup.table(["large content", "server", ">MB/s", ">CPU s/GB", ">its core", ">load's core"], rows)


def latency(results):
    """Medians over the rounds of each percentile, and of how far it is above the reference's in the same round."""
    rows = []
    for (row, server, _), samples in results.items():
        if row not in ("latency", "attested-latency"):
            continue
        for number, first in enumerate(samples[0]["loads"]):
            loads = [sample["loads"][number] for sample in samples]
            cells = []
            for name in PERCENTILES:
                added = statistics.median(load["latency"][name] - load["reference"][name] for load in loads)
                cells.append(f"{median(loads, 'latency', name):.0f} ({added:+.0f})")
            late = "\\*" if any(load["unsent"] for load in loads) else ""
            rows.append([
                f"{server}{', attested' if row == 'attested-latency' else ''}", f"{first['load']:.0%}{late}",
                f"{median(loads, 'rate'):.0f}", *cells, samples[0]["beside"]])
    table = markup.table(
        ["latency in us (above the reference)", "load", ">requests/s", *(f">{name}" for name in PERCENTILES), "reference"], rows)
    if any(row[1].endswith("*") for row in rows):
        table += "\n\n" + markup.paragraph("\\* Not all requests could be sent in time: lower bounds.")
    return table


def devices(results):
    rows = []
    for (row, _, _), samples in results.items():
        if not row.startswith("devices"):
            continue
        count = samples[0]["devices"]
        rows.append([
            f"{count:,}", f"{median(samples, 'value'):.1f} ({summarise(samples)[1]:.0f}%)", f"{median(samples, 'cold'):+.1f}",
            f"{median(samples, 'idle_kib') / 1024:.1f}", f"{median(samples, 'kib_each'):.2f}",
            f"{median(samples, 'registry_bytes') / count:.0f}", f"{median(samples, 'import_seconds') / count * 1e6:.0f}"])
    return markup.table(
        ["registered devices", ">us CPU/request", ">more if never seen", ">MiB at the start", ">KiB/device that came",
         ">bytes on disk/device", ">us/import"], rows)


def durability(found):
    registry = found.registry or {}
    said = []
    if registry.get("traced"):
        said.append(
            f"In {registry['traced']} traced attested requests the commit was on the disk before the first byte left for the "
            "service.")
    if registry.get("syncs"):
        said.append("One bare write and fdatasync, before and after: " + "; ".join(
            f"p50 {taken['p50']:.0f} us, p99 {taken['p99']:.0f} us" for taken in registry["syncs"]) + ".")
    if found.durable_throughput:
        said.append(f"Durable commits: {statistics.median(found.durable_throughput):.2f} of the throughput without durability.")
    return markup.paragraph(" ".join(said))


# Below this a server waited for somebody.
BUSY = 0.95


def saturation(results):
    """Who was busy, for each row: a throughput is the server's own only if the load kept it busy."""
    shares = {}
    for (row, _, _), samples in results.items():
        for sample in samples:
            # Two workers share their cores with the load, and large content waits for the load's core.
            if "server_share" in sample and not row.startswith(("download", "upload")):
                shares.setdefault(row, []).append((sample["server_share"], sample["load_share"]))
    rows = [
        [row, f"{min(server for server, _ in found):.0%}", f"{max(load for _, load in found):.0%}",
         "no" if min(server for server, _ in found) >= BUSY else "perhaps"]
        for row, found in shares.items()]
    table = markup.table(
        ["who was busy", ">servers, at least", ">load generator without the service, at most", "was the load the limit?"], rows)
    said = []
    if any(row[-1] == "perhaps" for row in rows):
        said.append("\"perhaps\": throughputs are lower bounds.")
    two = results.get(("two-loads", "attestgate", None))
    if two:
        said.append(
            f"Two load generators get {median(two, 'value'):.2f} ({summarise(two)[1]:.0f}%) times the requests/s of one.")
    return "\n\n".join(filter(None, [table, markup.paragraph(" ".join(said))]))
