"""What it takes a year: machines, disks, traffic, people. Prices are assumptions all of them; quantities are the model's."""

import math

from . import fleet, load, shards

HOURS_A_MONTH = 730
# Database machines of a shard: the primary and two standbys.
COPIES = 3


def traffic(constants):
    """Bytes of one request, connection and handshake included, and rates at the peak."""
    size, peak = constants.bytes, constants.load.peak_requests

    def on_the_wire(content):
        records = 1
        packets = math.ceil((content + records * size.record_overhead) / 1400)
        return content + records * size.record_overhead + packets * size.packet_overhead
    sessions = 1 / constants.load.requests_per_session
    # Acknowledgements go the other way.
    inward = on_the_wire(size.request_head + size.proof + size.request_content) + size.packet_overhead
    outward = on_the_wire(size.response) + size.packet_overhead
    inward += sessions * on_the_wire(size.handshake_in)
    outward += sessions * on_the_wire(size.handshake_out)
    return {"in": inward, "out": outward, "in_gbit": inward * 8 * peak / 1e9, "out_gbit": outward * 8 * peak / 1e9,
            "proof_share": size.proof / inward}


def replication(constants):
    """Bytes of log between zones for a counter: to two standbys, with a tenth for headers."""
    return 2 * 1.1 * shards.log_bytes(constants, constants.load.peak_requests)["mean"]


def year(constants):
    """EUR a year by what it is for."""
    price, place, gateway = constants.price, constants.place, constants.gateway
    count, sized = shards.chosen(constants), fleet.sized(constants)
    requests = load.figures(constants)["day"] * 365
    stored = sum(shards.storage(constants, constants.load.devices).values())
    # Devices, bindings and counters are looked for at random: what is not a receipt should be in memory.
    receipts = shards.storage(constants, constants.load.devices)["receipt"]
    memory = max(0.0, (stored - receipts) * 1.3 - 2 * place.database_vcpus * count)
    flow = traffic(constants)
    return {
        "gateways": sized["machines"] * gateway.vcpus * price.vcpu_hour * 24 * 365,
        "databases": count * COPIES * place.database_vcpus * price.vcpu_hour * 24 * 365
        + COPIES * memory * price.database_memory_gib_month * 12,
        # Twice the data for growth, log and backups.
        "disks": COPIES * 2 * stored * price.storage_gb_month * 12,
        "responses": requests * flow["out"] / 1e9 * price.egress_gb,
        # Both directions are charged; two gateways of three are in another zone than their database.
        "between zones": requests * (replication(constants) + 0.67 * 500) / 1e9 * price.zone_gb * 2,
        "people": price.engineers_year}


def summary(constants):
    parts = year(constants)
    total = sum(parts.values())
    requests = load.figures(constants)["day"] * 365
    return {"parts": parts, "total": total, "million": total / requests * 1e6, "device": total / constants.load.devices}


# What is taken half and double, or as far as it can go.
SENSITIVE = [
    ("gateway", "attested_us", "processor time of an attested request", 0.8, 1.5),
    ("gateway", "first_seen_us", "processor time of a first handshake", 0.5, 1.5),
    ("gateway", "busy_limit", "how busy workers may be", 1.33, 0.67),
    ("load", "requests_per_session", "requests for each connection", 3, 0.33),
    ("place", "most_lost", "share of devices behind one database", 2, 0.5),
    ("registry", "receipt_bytes", "bytes of a receipt", 0.1, 2),
    ("bytes", "response", "bytes of a response", 0.5, 4),
    ("price", "vcpu_hour", "price of a vCPU", 0.5, 2),
    ("price", "egress_gb", "price of traffic to phones", 0.33, 3),
    ("price", "engineers_year", "people", 0.5, 2),
]


def sensitivity(constants):
    """(what, EUR a year at the low and the high end), the widest first."""
    rows = [
        (text, low, high, summary(constants.with_factor(group, name, low))["total"],
         summary(constants.with_factor(group, name, high))["total"])
        for group, name, text, low, high in SENSITIVE]
    return sorted(rows, key=lambda row: -abs(row[4] - row[3]))
