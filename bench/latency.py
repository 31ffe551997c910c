"""How long requests take at a part of the full load: they come at fixed times, whatever the server does, so none is left out
because the one before it was slow (coordinated omission)."""

# Of each server's own full load. The targets are about the second.
LOADS = (0.3, 0.7, 0.9)
TARGET_LOAD = 0.7
PERCENTILES = ("p50", "p90", "p99", "p99.9", "max")
CONNECTIONS = 50


def measure(meter, server, variant):
    """Requests without a proof; what is taken off is what the service takes that nobody stands in front of, over TLS too."""
    capacity = meter.keepalive(server, variant)["requests_per_second"]
    return compared(
        meter, capacity,
        lambda rate: meter._per_request(server, variant, "mtls", CONNECTIONS, "--rate", rate),
        lambda rate: plain(meter, meter.direct, rate), meter.direct.name)


def measure_attested(meter, server, variant):
    """Requests with a proof; what is taken off is what another server takes for such without, at the same rate."""
    capacity = meter._attested(server, variant, CONNECTIONS)["requests_per_second"]
    return compared(
        meter, capacity,
        lambda rate: meter._attested(server, variant, CONNECTIONS, rate=rate),
        lambda rate: plain(meter, meter.reference, rate), meter.reference.name)


def plain(meter, server, rate):
    return meter._per_request(server, server.variants[0], "mtls", CONNECTIONS, "--rate", rate)


def compared(meter, capacity, one, other, reference):
    """- Returns: a sample whose value is p99 in microseconds at the load of the targets; `added` is how far that is above the
    reference's."""
    loads = []
    for number, load in enumerate(meter.loads):
        rate = max(1, round(load * capacity))
        # In turns, so that a drift of the machine cancels out.
        pair = [one(rate), other(rate)] if number % 2 == 0 else [other(rate), one(rate)][::-1]
        loads.append({
            "load": load, "rate": rate, "latency": pair[0]["latency_microseconds"], "reference": pair[1]["latency_microseconds"],
            # Above 0 the latencies are lower bounds.
            "unsent": pair[0]["open_loop"]["unsent"], "reference_unsent": pair[1]["open_loop"]["unsent"]})
    judged = next(each for each in loads if each["load"] == TARGET_LOAD)
    return {
        "value": judged["latency"]["p99"], "added": judged["latency"]["p99"] - judged["reference"]["p99"], "capacity": capacity,
        "beside": reference, "loads": loads, "requests": round(capacity * meter.seconds)}
