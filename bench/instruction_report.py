"""What bench/instructions shows, and judges by."""

import json
import re
from pathlib import Path

import markup
from reference import made_with

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "bench" / "instructions.json"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- instructions: begin -->", "<!-- instructions: end -->"
# In the order of the published table.
NAMES = {
    "keepalive": "`require: certificate`",
    "post": "the same, `POST` with content of 1 KiB",
    "http2": "the same, `GET` over HTTP/2, one at a time",
    "parallel-http2": "the same, 50 at a time on one connection",
    "handshake": "a connection with a full handshake, certificate seen before, and one request",
    "resumed": "a connection with a resumed handshake, and one request",
    "edge": "`require: certificate`, stated by [a proxy](adoption/edges.md) over TLS",
    "local": "the same, stated by a proxy through a Unix socket",
    "decided": "`require: certificate`, a [decision point's](policies.md) kept answer",
    "device": "`require: device`",
    "conditions": "the same, a policy with a condition",
    "attested": "`require: request-proof`, durable counter",
}
# What nginx and HAProxy do too.
PEER_ROWS = ("keepalive", "post", "http2", "parallel-http2", "handshake", "resumed")
PEERS = {"nginx": "nginx", "haproxy": "HAProxy"}


def read():
    return json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {"tolerance": {}}


def committed():
    """- Returns: the instructions of the reference by row, and those of an assertion's verification by bench/micro; without what
    this machine's counts are not comparable with."""
    here, found, parts = made_with(), read(), json.loads((ROOT / "bench" / "micro.json").read_text())
    rows = dict(found["instructions"]) if found.get("made_with") == here else {}
    return rows | ({"assertion": parts["parts"]["assertion"]["instructions"]} if parts["made_with"] == here else {})


def judge(found, reference, is_comparable):
    """- Returns: a line for each figure, and whether none is above the reference by more than the tolerance."""
    lines, is_good = [], True
    for figure, rows in found.items():
        general = reference["tolerance"].get(figure, 0.05)
        for row, value in rows.items():
            known, verdict = reference.get(figure, {}).get(row), ""
            # How many reads a handshake takes depends on when the load's segments come.
            tolerance = reference["tolerance"].get(f"{row} {figure}", general)
            if is_comparable and known is None:
                verdict, is_good = ": not in the reference, bench/instructions --update", False
            elif is_comparable and value > known * (1 + tolerance):
                verdict, is_good = f": more than {tolerance:.0%} above", False
            shown = "none" if known is None else f"{known:,.1f}"
            lines.append(f"{row}: {value:,.1f} {figure} a request, reference {shown}{verdict}")
    return lines, is_good


def updated(reference, found, peers, here):
    """The reference with new figures. Figures made with another compiler or other libraries are dropped.

    - Parameters:
      - found: by figure and row.
      - peers: by name, a version and instructions by row."""
    kept = reference if reference.get("made_with") == here else {"tolerance": reference["tolerance"]}
    new = {"tolerance": kept["tolerance"]}
    for figure in ("instructions", "calls"):
        rows = kept.get(figure, {}) | {row: round(value, 2) for row, value in found.get(figure, {}).items()}
        new[figure] = {row: rows[row] for row in NAMES if row in rows}
    new["peers"] = dict(kept.get("peers", {}))
    for name, peer in peers.items():
        before = new["peers"].get(name, {})
        # Another version's figures are not this one's.
        rows = before["instructions"] if before.get("version") == peer["version"] else {}
        rows = rows | {row: round(value, 2) for row, value in peer["instructions"].items()}
        new["peers"][name] = {"version": peer["version"], "instructions": {row: rows[row] for row in NAMES if row in rows}}
    return new | {"made_with": here}


def table(reference):
    """A line for each row, with the peers' figures and the ratio to the best of them."""
    counted, calls, peers = (reference.get(name, {}) for name in ("instructions", "calls", "peers"))
    columns = [(f"{PEERS[name]} {peer['version']}", peer["instructions"]) for name, peer in peers.items()]
    lines = []
    for row, name in NAMES.items():
        if row not in counted:
            continue
        theirs = [rows.get(row) for _, rows in columns]
        best = min((value for value in theirs if value is not None), default=None)
        cells = [name, shown(counted[row]), *map(shown, theirs)]
        if columns:
            cells.append(f"{counted[row] / best:.2f}" if best else "")
        lines.append([*cells, f"{calls[row]:.1f}" if row in calls else ""])
    head = ["request", ">instructions", *(f">{name}" for name, _ in columns), *([">ratio to the best"] if columns else [])]
    return markup.table([*head, ">system calls"], lines)


def shown(value):
    """To the hundred, and of large figures to the thousand."""
    return "" if value is None else f"{round(value, -2 if value < 100_000 else -3):,.0f}"


def publish(reference, page=PAGE):
    """Writes the reference, and its table into the page."""
    REFERENCE.write_text(json.dumps(reference, indent=2) + "\n")
    part = f"{BEGIN}\n\n{table(reference)}\n\n{END}"
    page.write_text(re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: part, page.read_text(), flags=re.DOTALL))
