"""Gateways: how many, and how long requests wait for a worker."""

import math
import random

from . import load, shards


def work(constants, requests, connections):
    """Workers that so much keeps busy. What the committing thread does is done on a vCPU of its own."""
    gateway = constants.gateway
    attested = gateway.attested_us * (1 - gateway.commit_share)
    each = requests * attested + connections * load.figures(constants)["handshake_us"]
    return each * gateway.many_workers / 1e6


def sized(constants):
    """The fleet: as many in each zone, so that those of the zones that are left are busy no more than `busy_limit`."""
    place, gateway, demand = constants.place, constants.gateway, load.figures(constants)
    peak = constants.load.peak_requests
    busy = work(constants, peak, demand["connections_per_second"])
    per_shard = busy / shards.chosen(constants)
    left = place.zones - 1
    # Each shard has a fleet of its own, so the least is one machine of a shard in each zone.
    each = max(1, math.ceil(per_shard / gateway.busy_limit / gateway.workers / left))
    machines = each * place.zones * shards.chosen(constants)
    processes, workers = machines, machines * gateway.workers
    open_connections = demand["open_connections"]
    survivors = machines * left / place.zones
    memory = (open_connections / survivors * (gateway.connection_h2_kib + gateway.kernel_kib) / 2 ** 20
              + demand["devices_in_use"] / survivors * gateway.record_bytes / 2 ** 30)
    return {
        "busy": busy, "requests_busy": work(constants, peak, 0),
        "handshakes_busy": work(constants, 0, demand["connections_per_second"]),
        "each": each, "machines": machines, "processes": processes, "workers": workers, "utilisation": busy / workers,
        "utilisation_left": busy / (workers * left / place.zones), "memory_gib": memory,
        "connections_each": open_connections / machines, "connections_left": open_connections / survivors,
        "devices_each": demand["devices_in_use"] / machines,
        "commit_thread": peak / machines * gateway.commit_share * gateway.attested_us / 1e6,
        "commit_thread_left": peak / survivors * gateway.commit_share * gateway.attested_us / 1e6}


def queueing(constants, utilisation, count=40_000):
    """What requests wait for the one worker that has their connection: it is no pool, for a connection stays with its worker.
    Times are milliseconds."""
    gateway, chosen = constants.gateway, random.Random(constants.seed)
    demand = load.figures(constants)
    attested = gateway.attested_us * (1 - gateway.commit_share) * gateway.many_workers
    handshake = demand["handshake_us"] * gateway.many_workers
    handshakes = 1 / constants.load.requests_per_session
    mean = attested + handshakes * handshake
    wait, waits = 0.0, []
    for _ in range(count):
        # Work that comes while there is other work waits for it.
        service = attested + (handshake if chosen.random() < handshakes else 0)
        waits.append(wait)
        wait = max(0.0, wait + service - chosen.expovariate(utilisation / mean))
    waits.sort()
    return {"p50": waits[count // 2] / 1e3, "p99": waits[count * 99 // 100] / 1e3, "p999": waits[count * 999 // 1000] / 1e3}
