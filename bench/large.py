"""Large content, down and up: what each GB costs, and how many MB go through in a second."""

from peers import Failed

# Connections on which content is on its way at the same time.
CONNECTIONS = 4
BYTES, REQUESTS = 64 << 20, 32


def download(meter, server, variant, *arguments):
    return measure(meter, server, variant, "/large/download", *arguments)


def upload(meter, server, variant, *arguments):
    return measure(meter, server, variant, "/large/upload", "-X", "POST", "-d", f"@{meter.large_file}", *arguments)


def measure(meter, server, variant, path, *arguments):
    # A number of requests and no time: what is still on its way at an end would count in part.
    count = meter.large_requests
    report = meter._load(
        server, variant, "mtls", "--connections", CONNECTIONS, "--requests", count, "--duration", 110, *meter._pids(server),
        *arguments, path=path)
    if report["requests"] != count:
        raise Failed(f"{server.name}: {report['requests']} of {count} requests to {path}: {report['reasons']}", status=1)
    volume, seconds = count * meter.large_file.stat().st_size, report["duration_seconds"]
    return {
        "value": report["server_cpu_seconds"] / (volume / 1e9),
        "requests": count,
        "megabytes_per_second": volume / 1e6 / seconds,
        "server_share": report["server_cpu_seconds"] / seconds,
        "load_share": report["own_cpu_seconds"] / seconds,
    }
