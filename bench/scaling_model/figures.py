"""The plots of docs/scaling.md, by their files' names."""

from . import load, tables
from .drawing import bars, number, plot


def drawn(model):
    return {f"{name}.svg": draw(model) for name, draw in (
        ("day", day), ("shards", shards), ("waiting", waiting), ("zone", zone), ("storm", storm), ("cost", cost))}


def day(model):
    course = load.course(model.constants)
    return plot(
        "A day of attested requests", "Requests a second over the hours of a day: a peak in the morning, a lower one after work.",
        "hour", "requests/s",
        [("requests/s", "a", course), ("mean", "b dashed", [(hour, model.load["mean"]) for hour in (0, 24)])],
        x_ticks=range(0, 25, 3))


def shards(model):
    def line(name):
        return [(count, said[name]) for count, said in model.by_count.items()]
    return plot(
        f"What a counter adds to a request, at {number(model.constants.load.peak_requests)} a second",
        "Latency of a durable counter against the number of shards: it hardly depends on it.", "shards", "ms",
        [("p50", "a", line("p50_ms")), ("p99", "b", line("p99_ms"))], x_ticks=tables.COUNTS, is_log=True)


def waiting(model):
    points = {name: [(part * 100, said[name]) for part, said in model.waits.items()] for name in ("p50", "p99", "p999")}
    return plot(
        "Waiting for the worker that has the connection",
        "Time that work waits, against how busy workers are: it grows fast above 80 %.",
        "workers busy, %", "ms", [("p50", "a", points["p50"]), ("p99", "b", points["p99"]), ("p99.9", "d", points["p999"])],
        x_ticks=range(10, 100, 10),
        shades=[(model.fleet["utilisation"] * 100, "all zones"), (model.fleet["utilisation_left"] * 100, "one gone")])


def zone(model):
    def line(index):
        # Each half second is enough to see, but for the steps.
        step = model.constants.load.peak_requests / 50
        points = [(point[0], point[index]) for point in model.zone["points"]]
        return [
            point for number, point in enumerate(points)
            if number % 5 == 0 or any(
                abs(other[1] - point[1]) > step for other in points[max(0, number - 1):number + 2])]
    return plot(
        "A zone fails at the peak, after ten seconds",
        "Served and refused requests and handshakes a second: a third of the shards refuses until their standbys are promoted.",
        "s", "a second",
        [("served", "a", line(1)), ("503", "b", line(2)), ("handshakes", "c", line(3))])


def storm(model):
    colours = dict(zip(model.storms, "abcd"))
    longest = max(said["points"][-1][0] for said in model.storms.values())
    lines = []
    for spread, said in model.storms.items():
        last = said["points"][-1]
        lines.append((f"within {spread} s", colours[spread], [(0, 0), *said["points"][19::20], last, (longest, last[1])]))
    return plot(
        f"{number(model.constants.storm.waiting_devices)} phones come back after an outage",
        "Phones connected over time, for three ways to spread their return.", "s", "phones connected", lines)


def cost(model):
    rows = [
        (text, low_cost, high_cost, f"x {low:g}", f"x {high:g}")
        for text, low, high, low_cost, high_cost in model.sensitivity]
    return bars(
        "What the cost of a year depends on", "Cost a year when one number at a time is another, the widest first.", rows,
        model.costs["total"], "EUR a year")
