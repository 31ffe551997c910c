"""What is measured beside the attested row: attestgate with its registry in PostgreSQL, and what a user would build instead,
nginx's `auth_request` with a verifier. Each has a row of its own, and one server for it. The verifiers take part in
attested-latency too."""

import contextlib
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import markup
import preparation
from peers import Failed, auth_request, postgresql
from preparation import ROOT, say
from report import VERIFIER_TARGET, summarise

KINDS = {
    "attested-postgresql": postgresql.InPostgreSQL,
    "auth-request-python": auth_request.Python,
    "auth-request-swift": auth_request.Swift,
}
# Where the verifier in Swift is built: out of sight of the project's own build.
SCRATCH = ROOT / ".build" / "bench-verifier"
SWIFT = ROOT / "bench" / "verifiers" / "swift"


def needed(rows):
    """- Returns: the keys of `KINDS` whose servers take part in these rows."""
    return [key for key, kind in KINDS.items() if kind.rows & set(rows)]


def prepare(rows, built):
    """Builds or finds what the servers of these rows need.

    - Parameters:
      - rows: keys of `KINDS`.
      - built: as of `preparation.build`: nothing is built.
    - Returns: those that can be started; why others cannot is printed."""
    ready = []
    for row in rows:
        try:
            {"attested-postgresql": _find_postgresql, "auth-request-python": _find_python,
             "auth-request-swift": lambda: _build_swift(built)}[row]()
            ready.append(row)
        except Failed as reason:
            say(f"{row} is left out: {reason}")
    return ready


def _find_python():
    auth_request.Python.interpreter = preparation.virtual_environment() / "bin" / "python"


def _build_swift(built):
    auth_request.Swift.binary = SCRATCH / "release" / "verifier"
    if built is None:
        say("building the verifier in Swift")
        done = subprocess.run(
            ["swift", "build", "-c", "release", "--package-path", SWIFT, "--scratch-path", SCRATCH], stdout=sys.stderr)
        if done.returncode != 0:
            raise Failed("it does not build")
    if not auth_request.Swift.binary.exists():
        raise Failed("it was not built: leave out --built")


def _find_postgresql():
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        raise Failed("PostgreSQL is not installed")


def start(stack, rows, directory, certificates, ports, fleet, registry, chosen):
    """- Returns: the servers of these rows. They are stopped with the stack."""
    servers = []
    if not rows:
        return servers
    auth_request.AuthRequest.registry = registry
    auth_request.AuthRequest.registrations = fleet / "registrations.jsonl"
    for row in rows:
        if row == "attested-postgresql":
            postgresql.InPostgreSQL.database = start_postgresql(stack, chosen.load_core)
        server = KINDS[row](directory, certificates, ports, chosen.server_core)
        stack.callback(server.stop)
        server.start()
        if row == "attested-postgresql":
            server.import_devices(fleet / "registrations.jsonl")
        servers.append(server)
    return servers


def start_postgresql(stack, core):
    sys.path.insert(0, str(ROOT / "Tests" / "Integration"))
    from support.postgresql import PostgreSQL
    database = stack.enter_context(contextlib.closing(PostgreSQL()))
    kind = preparation.file_system(database.directory)
    if kind in ("tmpfs", "ramfs"):
        raise Failed(f"{database.directory} lies in memory ({kind})")
    # Stopped and started from the load's core, so that its processes run there.
    database.stop(signal.SIGINT)
    with preparation.on_core(core):
        database.start()
    return database


def report(results):
    """One line for each of the rows: what it does a second, what that costs, and how attestgate compares."""
    ours = results.get(("attested", "attestgate", None))
    lines = []
    for row, kind in KINDS.items():
        samples = results.get((row, kind.name, None))
        if not samples:
            continue
        rate, cost = (statistics.median(sample[name] for sample in samples) for name in ("requests_per_second", "value"))
        each = [statistics.median(parts) for parts in zip(*(_parts(sample["value_of_each"]) for sample in samples))]
        faster, cheaper = (_ratio(pairs) for pairs in (
            [(mine["requests_per_second"], its["requests_per_second"]) for mine, its in zip(ours or [], samples)],
            [(its["value"], mine["value"]) for mine, its in zip(ours or [], samples)]))
        names = ("gateway", "PostgreSQL") if row == "attested-postgresql" else ("nginx", "verifier")
        parts = ", ".join(f"{name} {part:.1f}" for name, part in zip(names, each))
        spread = summarise(samples)[1]
        lines.append([row, f"{rate:.0f}", f"{cost:.1f} ({spread:.0f}%)", parts, f"**{faster}**", cheaper])
    if not lines:
        return ""
    head = [
        "beside the attested row", ">requests/s", ">us CPU of its core", "by process", ">attestgate's requests/s / its",
        ">its CPU / attestgate's"]
    return markup.table(head, lines) + "\n\n" + markup.paragraph(
        f"The target is {VERIFIER_TARGET} times the requests a second of nginx with either verifier.")


def _ratio(pairs):
    """Within each round, as in the other tables."""
    return f"{statistics.median(one / other for one, other in pairs):.2f}" if pairs else "-"


def _parts(each):
    """The first process, and all others together."""
    return each[0], sum(each[1:])
