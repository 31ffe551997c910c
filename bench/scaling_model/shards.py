"""One shard of the registry: a PostgreSQL primary with synchronous standbys in the other zones, and the gateways that share it.

Each gateway has one connection for counters. What has gathered is sent as one statement, two are under way at most, and the
connection's backend does them one after the other: its work, a sync of the log that all backends share, and the wait for the
first of two standbys, which syncs what has come to it in the same way. Times are microseconds."""

import heapq
import math
import random
from collections import deque

STANDBYS = 2


class Syncing:
    """A log that is made durable for all who wait, one sync after the other."""

    def __init__(self, shard, place):
        self.shard, self.place = shard, place
        self.waiting, self.bytes, self.is_busy, self.busy = [], 0, False, 0.0

    def want(self, size, then):
        self.waiting.append(then)
        self.bytes += size
        if not self.is_busy:
            self.begin()

    def begin(self):
        taken, size = self.waiting, self.bytes
        self.waiting, self.bytes, self.is_busy = [], 0, True
        time = self.place.disk_sync_us * math.exp(self.shard.random.gauss(0, self.place.disk_sync_sigma))
        time += size / self.place.disk_mb
        self.busy += time
        self.shard.after(time, lambda: self.end(taken, size))

    def end(self, taken, size):
        self.is_busy = False
        if self.waiting:
            self.begin()
        for then in taken:
            then()


class Backend:
    """A gateway's connection."""

    def __init__(self, shard, distance):
        self.shard, self.distance = shard, distance
        self.waiting, self.under_way, self.queue, self.is_busy = [], 0, deque(), False

    def come(self):
        self.waiting.append(self.shard.now)
        self.flow()

    def flow(self):
        registry = self.shard.constants.registry
        if not self.waiting or self.under_way >= registry.depth:
            return
        sent, self.waiting = self.waiting[:registry.statement_rows], self.waiting[registry.statement_rows:]
        self.under_way += 1
        self.shard.after(self.distance / 2, lambda: self.arrive(sent))

    def arrive(self, sent):
        self.queue.append(sent)
        if not self.is_busy:
            self.work()

    def work(self):
        registry, shard = self.shard.constants.registry, self.shard
        self.is_busy, sent = True, self.queue.popleft()
        work = registry.statement_us + registry.row_us * len(sent)
        shard.work += work
        size = shard.bytes_per_counter * len(sent)
        shard.log += size
        shard.after(work, lambda: shard.primary.want(size, lambda: shard.replicate(size, lambda: self.committed(sent))))

    def committed(self, sent):
        shard = self.shard
        shard.commits += 1
        self.is_busy = False
        if self.queue:
            self.work()
        shard.after(self.distance / 2, lambda: self.answered(sent))

    def answered(self, sent):
        self.under_way -= 1
        now = self.shard.now
        self.shard.latencies += [now - since for since in sent]
        self.flow()


class Shard:
    def __init__(self, constants, rate, gateways, seed, standbys=STANDBYS):
        self.constants, self.random, self.rate = constants, random.Random(seed), rate
        place = constants.place
        self.now, self.events, self.number = 0.0, [], 0
        self.latencies, self.commits, self.work, self.log = [], 0, 0.0, 0.0
        self.bytes_per_counter = log_bytes(constants, rate)["mean"]
        self.primary = Syncing(self, place)
        self.standbys = [Syncing(self, place) for _ in range(standbys)]
        # A third of the gateways is where the primary is.
        self.backends = [
            Backend(self, place.near_round_trip_us if number % place.zones == 0 else place.zone_round_trip_us)
            for number in range(gateways)]

    def after(self, time, then):
        self.number += 1
        heapq.heappush(self.events, (self.now + time, self.number, then))

    def replicate(self, size, then):
        """The first standby that has it counts (ANY 1)."""
        place, confirmations = self.constants.place, []

        def confirmed():
            confirmations.append(True)
            if len(confirmations) == 1:
                then()
        if not self.standbys:
            return then()
        for standby in self.standbys:
            self.after(place.zone_round_trip_us / 2, lambda standby=standby: standby.want(
                size, lambda: self.after(place.zone_round_trip_us / 2, confirmed)))

    def come(self):
        self.random.choice(self.backends).come()
        self.after(self.random.expovariate(self.rate) * 1e6, self.come)

    def run(self, counters):
        self.come()
        while len(self.latencies) < counters and self.events:
            self.now, _, then = heapq.heappop(self.events)
            then()
        # Without those of the beginning, when nobody waited.
        kept = sorted(self.latencies[len(self.latencies) // 10:])
        seconds = self.now / 1e6
        return {
            "p50_ms": kept[len(kept) // 2] / 1e3, "p99_ms": kept[len(kept) * 99 // 100] / 1e3,
            "commits": self.commits / seconds, "batch": len(self.latencies) / self.commits,
            "sync_busy": self.primary.busy / self.now, "vcpus": self.work / self.now, "log_mb": self.log / seconds / 1e6}


def log_bytes(constants, rate, devices=None):
    """Bytes of log for a counter. The first change of a page after a checkpoint writes the whole page: how many pages a
    checkpoint interval touches first follows from how many the table has."""
    registry, place, load = constants.registry, constants.place, constants.load
    devices = devices or load.devices * rate / load.peak_requests
    pages = devices * registry.counter_bytes / 8192
    changes = rate * place.checkpoint_s
    touched = pages * -math.expm1(-changes / pages)
    share = touched / changes
    return {"mean": registry.log_bytes * (1 - share) + registry.first_touch_bytes * share, "first_touch_share": share}


def storage(constants, devices):
    """GB of a database of so many devices."""
    registry = constants.registry
    tables = {
        name: getattr(registry, f"{name}_bytes") * devices / 1e9
        for name in ("receipt", "device", "counter", "binding", "certificate", "attestation")}
    return tables


def needed(constants):
    """How many shards each rule asks for at least."""
    load, registry, place = constants.load, constants.registry, constants.place
    # As many counters share a commit as one shard of sixteen sees; the simulation is asked below.
    batch = 10
    vcpus = load.peak_requests * (registry.statement_us / batch + registry.row_us) / 1e6
    log = load.peak_requests * log_bytes(constants, load.peak_requests)["mean"] / 1e6
    stored = sum(storage(constants, load.devices).values())
    restored = place.restore_hours * 3600 * place.disk_mb / 2 / 1e3
    # Three times the mean at the peak. A renewal is a key binding, and so is what takes the time of an enrolment.
    enrolled = 3 * load.devices / 86400 * (1 / load.campaign_days + 1 / load.certificate_days)
    return {
        "processor": vcpus / (place.database_vcpus * place.database_busy),
        "log": log / (place.disk_mb * place.log_busy),
        "restore": stored / restored,
        "enrolment": enrolled / enrolments(constants)["near"],
        "blast": 1 / place.most_lost}


def chosen(constants):
    """The next power of two."""
    return 2 ** math.ceil(math.log2(max(needed(constants).values())))


def enrolments(constants):
    """How many devices a second one shard can enrol: each key binding holds a lock that all others take, from its first statement
    until its commit has come to a standby."""
    registry, place = constants.registry, constants.place
    mean_sync = place.disk_sync_us * math.exp(place.disk_sync_sigma ** 2 / 2)
    commit = 2 * mean_sync + place.zone_round_trip_us

    def rate(distance):
        return 1e6 / (registry.binding_round_trips * distance + registry.binding_us + commit)
    return {"near": rate(place.near_round_trip_us), "far": rate(place.zone_round_trip_us)}
