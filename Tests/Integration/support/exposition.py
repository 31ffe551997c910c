"""Prometheus' text format 0.0.4, read strictly as its specification has it, and by promtool where that is installed."""

import http.client
import re
import shutil
import socket
import subprocess

from support.paths import PATIENCE
from support.waiting import eventually

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
KINDS = {"counter", "gauge", "histogram", "summary", "untyped"}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Administration(http.client.HTTPConnection):
    """Requests to the administration's socket."""

    def __init__(self, gateway):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = gateway.conf["administration"]["socket"]

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


def ask(gateway, path, method="GET"):
    """- Returns: status, content type and content."""
    connection = Administration(gateway)
    try:
        connection.request(method, path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.getheader("content-type"), response.read().decode()
    finally:
        connection.close()


def unescape(value):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), value)


class Metrics:
    """One scrape: samples by name and labels."""

    def __init__(self, text):
        self.text, self.samples, self.kinds, self.helps = text, {}, {}, {}
        assert text.endswith("\n"), "the last line ends with a line feed"
        current, finished = None, set()
        for line in text[:-1].split("\n"):
            comment = re.fullmatch(r"# (HELP|TYPE) ([^ ]+) (.+)", line)
            if comment:
                keyword, name, rest = comment.groups()
                assert NAME.fullmatch(name) and name not in finished, line
                if name != current:
                    finished.add(current)
                    current = name
                table = self.helps if keyword == "HELP" else self.kinds
                assert name not in table, f"twice: {line}"
                assert keyword == "HELP" or rest in KINDS, line
                table[name] = rest
                continue
            name, labels, value = self._sample(line)
            assert self._family(name) == current, f"not with its family: {line}"
            key = (name, frozenset(labels.items()))
            assert key not in self.samples, f"twice: {line}"
            self.samples[key] = float(value)
        assert set(self.kinds) == set(self.helps)
        self._check_histograms()

    def _sample(self, line):
        name = NAME.match(line)
        assert name, line
        place, labels = name.end(), {}
        if line[place:place + 1] == "{":
            place += 1
            while line[place] != "}":
                label = LABEL.match(line, place)
                assert label and label[1] not in labels, line
                labels[label[1]] = unescape(label[2])
                place = label.end()
                assert line[place] in ",}", line
                place += line[place] == ","
            place += 1
        value = re.fullmatch(r" (NaN|[+-]Inf|[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)", line[place:])
        assert value, line
        return name[0], labels, value[1]

    def _family(self, name):
        for suffix in ["_bucket", "_sum", "_count"]:
            base = name.removesuffix(suffix)
            if base != name and self.kinds.get(base) == "histogram":
                return base
        assert self.kinds.get(name) != "histogram", f"{name} has a value of its own"
        return name

    def _check_histograms(self):
        series = {}
        for (name, labels), value in self.samples.items():
            if name.endswith("_bucket"):
                rest = dict(labels)
                bound = float(rest.pop("le"))
                series.setdefault((name.removesuffix("_bucket"), frozenset(rest.items())), []).append((bound, value))
        for (name, labels), buckets in series.items():
            assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), (name, buckets)
            counts = [count for _, count in buckets]
            assert counts == sorted(counts), (name, buckets)
            assert self.samples[(f"{name}_count", labels)] == counts[-1]
            assert (f"{name}_sum", labels) in self.samples

    def __call__(self, name, **labels):
        """The sum of the samples of this name that have these labels; there must be one."""
        found = [value for (known, their), value in self.samples.items() if known == name and labels.items() <= dict(their).items()]
        assert found, f"no {name} with {labels}"
        return sum(found)

    def labels(self, name):
        return [dict(labels) for known, labels in self.samples if known == name]

    def label_names(self, name):
        """- Returns: the names of the labels of a metric; those of a histogram without `le`."""
        sample = f"{name}_count" if self.kinds[name] == "histogram" else name
        return {label for labels in self.labels(sample) for label in labels}


def scrape(gateway):
    def find():
        status, content_type, text = ask(gateway, "/metrics")
        assert (status, content_type) == (200, CONTENT_TYPE), text
        metrics = Metrics(text)
        # Of a worker that did not answer within a second, it tells what was true before.
        workers = metrics.labels("attestgate_worker_up")
        return metrics if metrics("attestgate_worker_up") == len(workers) else None
    return eventually(find, "a scrape that every worker has answered")


def promtool_objections(text):
    """What promtool has to say of a scrape; None where it is not installed."""
    if not shutil.which("promtool"):
        return None
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


class Difference:
    """What a scrape has more than an earlier one."""

    def __init__(self, before, after):
        self.before, self.after = before, after

    def __call__(self, name, **labels):
        try:
            earlier = self.before(name, **labels)
        except AssertionError:
            earlier = 0
        return self.after(name, **labels) - earlier
