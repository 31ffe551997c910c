"""What 80 million phones ask for: a day's course, sessions, connections, enrolments."""

import math

# Requests at an hour of the day, the peak being 1: people see doctors and pharmacies in the morning, and again after work.
BASE = 0.04
HUMPS = [(9.5, 1.7, 0.96), (17.0, 2.2, 0.62)]


def shape(hour):
    return BASE + sum(height * math.exp(-((hour - at) / width) ** 2 / 2) for at, width, height in HUMPS)


def course(constants, steps=96):
    """Pairs of an hour and the requests a second then."""
    hours = [24 * step / steps for step in range(steps + 1)]
    highest = max(shape(24 * step / 960) for step in range(960))
    return [(hour, constants.load.peak_requests * shape(hour) / highest) for hour in hours]


def figures(constants):
    load, gateway = constants.load, constants.gateway
    mean = sum(rate for _, rate in course(constants)[:-1]) / 96
    connections = load.peak_requests / load.requests_per_session
    life = load.session_seconds + load.keep_alive_seconds
    return {
        "mean": mean, "peak_to_mean": load.peak_requests / mean, "day": mean * 86400,
        "requests_per_device_day": mean * 86400 / load.devices,
        "connections_per_second": connections, "open_connections": connections * life,
        "devices_in_use": connections * load.session_seconds,
        "session_table_seconds": lambda processes: gateway.sessions / (connections / processes),
        "campaign": load.devices / load.campaign_days / 86400,
        "churn": load.devices / load.key_life_days / 86400,
        "renewals": load.devices / load.certificate_days / 86400,
        "one_day": load.devices / 86400,
        "handshake_us": (
            load.resumed_share * gateway.resumed_us + load.known_share * gateway.known_us
            + (1 - load.resumed_share - load.known_share) * gateway.first_seen_us) - gateway.keepalive_us}
