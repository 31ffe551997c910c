"""A zone that fails at the peak, and everybody coming back at once: second by second, work as a fluid.

Phones whose connection is gone, or finds no place, try again after a while, again and again."""

import math

from . import fleet, load

STEP = 0.1


def connecting(constants, waiting, workers, free, spread, most=7200):
    """Phones that connect again.

    - Parameters:
      - workers: how many there are; free: how many of them have nothing else to do.
      - spread: seconds over which phones come the first time.
    - Returns: points (second, connected so far), and when 99 % were connected (None: not within `most`).
    """
    storm = constants.storm
    capacity = free * 1e6 / (load.figures(constants)["handshake_us"] * constants.gateway.many_workers)
    places = min(workers * storm.handshakes, capacity * storm.give_up_s)
    queue = connected = again = time = 0.0
    to_come, done, points = waiting, None, []
    while time < most and done is None:
        come = min(to_come, waiting * STEP / spread)
        to_come -= come
        back = again * -math.expm1(-STEP / storm.detect_s)
        again -= back
        queue += come + back
        # Those for whom there is no place try again, and some of the work was theirs.
        left = max(0.0, queue - places)
        queue -= left
        again += left
        served = min(queue, capacity * STEP * (1 - storm.wasted_share if left else 1))
        queue -= served
        connected += served
        time += STEP
        points.append((time, connected))
        if connected >= 0.99 * waiting:
            done = time
    return {"capacity": capacity, "points": points, "recovered": done}


def zone_loss(constants, seconds=120, at=10):
    """Served and refused requests a second while one zone of three fails at the peak. A third of the databases' primaries was
    there."""
    place, demand, sized = constants.place, load.figures(constants), fleet.sized(constants)
    peak, zones = constants.load.peak_requests, place.zones
    workers = sized["workers"] * (zones - 1) / zones
    lost = demand["devices_in_use"] / zones
    # Only phones that want something come back: those in the midst of a session.
    request_work = fleet.work(constants, 1, 0)
    handshake_work = fleet.work(constants, 0, 1)
    queue, away = 0.0, 0.0
    points, time, clear = [], 0.0, None
    refused_total = 0.0
    while time < seconds:
        if abs(time - at) < STEP / 2:
            away = lost
        is_failed = time >= at
        back = away * -math.expm1(-STEP / constants.storm.detect_s)
        away -= back
        share_in = 1 - away / demand["devices_in_use"]
        requests = peak * share_in
        shards_down = 1 / zones if is_failed and time < at + place.failover_s else 0.0
        available = workers if is_failed else sized["workers"]
        queue += demand["connections_per_second"] * STEP + back
        free = max(0.0, available - requests * request_work)
        done = min(queue, free / handshake_work * STEP)
        queue -= done
        served = min(requests, available / request_work)
        refused = served * shards_down
        refused_total += (refused + (peak - requests)) * STEP
        points.append((time, served - refused, refused, done / STEP, queue))
        if is_failed and clear is None and time > at + 1 and queue < 1 and away < 0.01 * lost:
            clear = time - at
        time += STEP
    return {"points": points, "clear": clear, "missed": refused_total, "missed_share": refused_total / (peak * (seconds - at)),
            "lost_connections": demand["open_connections"] / zones, "coming_back": lost,
            "most_waiting": max(point[4] for point in points)}


def outage(constants, spread):
    """After an outage of everything, with half of the peak's requests from those who are in already."""
    sized = fleet.sized(constants)
    free = sized["workers"] - sized["requests_busy"] / 2
    return connecting(constants, constants.storm.waiting_devices, sized["workers"], free, spread)
