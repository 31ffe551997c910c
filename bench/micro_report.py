"""What bench/micro shows, and judges by."""

NAMES = {
    "head": "a head of HTTP/1.1 parsed",
    "challenge": "a challenge recognised",
    "base": "both fields of a proof read, the signature base built",
    "cbor": "an assertion read, without its signature",
    "assertion": "an assertion verified",
    "ecdsa": "of that, OpenSSL's verification alone",
    "signature": "an Android phone's counter and signature verified",
    "http2": "a request and its answer in HTTP/2's session: HPACK both ways",
    "counter": "a counter spent, 64 in a turn: the worker's part",
    "counter, store": "the same, 64 in a commit: the store's thread",
}
FIGURES = ("instructions", "allocations", "bytes", "openssl_allocations", "openssl_bytes")
# Parts of the reference. How many counters come together depends on how fast the threads are that wait for each other.
TOLERANCE = {
    "instructions": 0.03, "allocations": 0, "openssl_allocations": 0, "counter": 0.2, "counter, store": 0.2}
# Of an allocation: what grows now and then is shared by the operations between.
ROUNDING = 0.05


def rows(parts):
    """By row, the figures in order of `FIGURES`; without instructions where none were counted."""
    found = {}
    for name, part in parts.items():
        for row, figures in ((name, part["own"]), (f"{name}, store", part.get("others"))):
            if figures is not None:
                found[row] = {figure: figures[figure] for figure in FIGURES if figure in figures}
    return found


def table(found):
    lines = ["| | instructions | allocations | octets | OpenSSL's own | octets |", "|---|--:|--:|--:|--:|--:|"]
    for row, figures in found.items():
        shown = [number(figures.get(figure)) for figure in FIGURES]
        lines.append(f"| {NAMES[row]} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def faults(found, reference, judges_instructions):
    """What is above the reference, in words. Octets are shown and not judged: they come with the allocations."""
    lines = []
    for row, figures in found.items():
        known = reference["parts"].get(row)
        if known is None:
            lines.append(f"{row}: not in the reference, bench/micro --update")
            continue
        for figure in ("instructions", "allocations", "openssl_allocations"):
            if figure not in figures or figure == "instructions" and not judges_instructions:
                continue
            tolerance = reference["tolerance"].get(row, reference["tolerance"][figure])
            slack = 0 if figure == "instructions" else ROUNDING
            if figures[figure] > known[figure] * (1 + tolerance) + slack:
                lines.append(f"{row}: {figures[figure]:,} {figure}, more than {known[figure]:,} and {tolerance:.0%}")
    return lines
