"""More of one kind: two workers of a server, and two load generators."""

import subprocess


def compare(meter, server, measure):
    """CPU for each request with two workers, in parts of that with one. Both times the server and the load share both cores, so
    that the number of workers is all that differs. The cores are each one's own again at the end."""
    before, found = (server.core, meter.core), []
    server.core = meter.core = {server.core, meter.core}
    try:
        for count in (1, 2):
            server.worker_count = count
            server.stop()
            server.start()
            found.append(measure())
    finally:
        (server.core, meter.core), server.worker_count = before, 1
        server.stop()
        server.start()
    one, two = found
    return {"value": two["value"] / one["value"], "requests": two["requests"], "one": one, "two": two}


def two_loads(meter, server, variant):
    """Requests a second with two load generators, in parts of those with one: above 1 if the server had more to give."""
    common = ["--warmup", meter.warmup, "--duration", meter.seconds, "--connections"]
    one = meter._load(server, variant, "mtls", *common, 50)
    both = [meter._spawn(server, variant, "mtls", *common, 25, stderr=subprocess.DEVNULL) for _ in range(2)]
    reports = [meter._finished(process, server, "mtls") for process in both]
    return {
        "value": sum(report["requests_per_second"] for report in reports) / one["requests_per_second"],
        "requests": sum(report["requests"] for report in reports)}
