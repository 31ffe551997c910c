"""What the main table has no columns for."""

import statistics

from latency import PERCENTILES


def median(samples, *names):
    """Of a member of each sample, found by its names one after the other."""
    def value(sample):
        for name in names:
            sample = sample[name]
        return sample
    return statistics.median(value(sample) for sample in samples)


def lines(head, rows):
    """A table, or nothing if it has no rows. A column whose head begins with `>` is of numbers."""
    if not rows:
        return ""
    rule = "".join("--:|" if name.startswith(">") else "---|" for name in head)
    shown = [name.removeprefix(">") for name in head]
    return "\n".join([f"| {' | '.join(shown)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)])


def large(results):
    rows = [
        [row, server, f"{median(samples, 'megabytes_per_second'):.0f}", f"{median(samples, 'value'):.2f}",
         f"{median(samples, 'server_share'):.0%}", f"{median(samples, 'load_share'):.0%}"]
        for (row, server, _), samples in results.items() if row.startswith(("download", "upload"))]
    return lines(["large content", "server", ">MB/s", ">CPU s/GB", ">its core", ">load's core"], rows)


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
            late = " (not all in time: lower bounds)" if any(load["unsent"] for load in loads) else ""
            rows.append([
                f"{server}{', attested' if row == 'attested-latency' else ''}", f"{first['load']:.0%}{late}",
                f"{median(loads, 'rate'):.0f}", *cells, samples[0]["beside"]])
    return lines(
        ["latency in us (above the reference)", "load", ">requests/s", *(f">{name}" for name in PERCENTILES), "reference"], rows)


def devices(results):
    rows = []
    for (row, _, _), samples in results.items():
        if not row.startswith("devices"):
            continue
        count = samples[0]["devices"]
        rows.append([
            f"{count:,}", f"{median(samples, 'value'):.1f}", f"{median(samples, 'cold'):+.1f}",
            f"{median(samples, 'idle_kib') / 1024:.1f}", f"{median(samples, 'kib_each'):.2f}",
            f"{median(samples, 'registry_bytes') / count:.0f}", f"{median(samples, 'import_seconds') / count * 1e6:.0f}"])
    return lines(
        ["registered devices", ">us CPU a request, seen before", ">more for a device never seen", ">MiB at the start",
         ">KiB for each device that came", ">bytes on disk for each", ">us to import each"], rows)


def durability(found):
    registry = found.registry or {}
    said = []
    if registry.get("traced"):
        said.append(
            f"The system calls of {registry['traced']} attested requests were traced, before and after the measurements: the "
            "commit of each was on the disk before its first byte left for the service.")
    if registry.get("syncs"):
        said.append("One bare write and fdatasync, before and after: " + "; ".join(
            f"p50 {taken['p50']:.0f} us, p99 {taken['p99']:.0f} us" for taken in registry["syncs"]) + ".")
    if found.durable_throughput:
        said.append(f"Durable commits: {statistics.median(found.durable_throughput):.2f} of the throughput without durability.")
    return " ".join(said)


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
         "no" if min(server for server, _ in found) >= BUSY else "perhaps: throughputs are lower bounds"]
        for row, found in shares.items()]
    table = lines(
        ["who was busy", ">servers, at least", ">load generator, at most (without the service)", "was the load the limit?"], rows)
    two = results.get(("two-loads", "attestgate", None))
    if two:
        table += (
            f"\n\nTwo load generators at once have attestgate answer {median(two, 'value'):.2f} times the requests a second of "
            "one: what is above 1 one generator has left undone.")
    return table
