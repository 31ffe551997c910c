"""The tables of docs/scaling.md, by the names of their places there."""

import textwrap

from . import commits, costs, fleet, load, shards, storms
from .drawing import number

COUNTS = [1, 2, 4, 8, 16, 32]
# Of these, in the table.
SHOWN = [1, 4, 8, 16]
SPREADS = [10, 60, 300]
SIMULATED = 25_000
# As the Markdown formatter wraps paragraphs.
COLUMNS = 100
# The assumptions that decide most; all of them stand in constants.json.
DECIDING = [
    "load.requests_per_session", "load.session_seconds", "gateway.busy_limit", "place.zone_round_trip_us", "place.disk_sync_us",
    "place.failover_s", "storm.waiting_devices"]


def table(head, rows, left=1):
    """- Parameter left: columns whose cells are text."""
    rule = ["--" if column < left else "-:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


def millions(value):
    return f"{value / 1e6:.1f} M"


class Model:
    """Everything that is simulated, once."""

    def __init__(self, constants):
        self.constants = constants
        self.load, self.fleet = load.figures(constants), fleet.sized(constants)
        self.count = shards.chosen(constants)
        gateways = constants.place.zones * self.fleet["each"]
        self.gateways = gateways
        self.validation = [
            (store, part, constants.validation["measured"][store][f"{part}"], commits.predicted(constants, store, part))
            for store in ("file", "postgresql") for part in (1.0, 0.5)]
        self.by_sync = {
            sync: commits.predicted(constants.with_value("registry", "sync_us", sync), "file", 0.5) for sync in (60, 200, 400)}
        self.by_count = {
            count: self.shard(constants, count, max(gateways, self.count * gateways // count)) for count in COUNTS}
        self.here = self.by_count.get(self.count) or self.shard(constants, self.count, gateways)
        self.places = [
            (label, self.shard(constants.with_factor("place", name, factor), self.count, gateways))
            for label, name, factor in (
                ("as assumed", "zone_round_trip_us", 1), ("zones 2 ms apart", "zone_round_trip_us", 2), ("regions 20 ms apart", "zone_round_trip_us", 20),
                ("syncs of 0.1 ms (a disk in the machine)", "disk_sync_us", 1 / 7), ("syncs of 2.1 ms", "disk_sync_us", 3))]
        self.alone = self.shard(constants, self.count, gateways, standbys=0)
        self.waits = {part / 100: fleet.queueing(constants, part / 100) for part in range(10, 96, 5)}
        self.zone = storms.zone_loss(constants)
        self.storms = {spread: storms.outage(constants, spread) for spread in SPREADS}
        self.costs, self.sensitivity = costs.summary(constants), costs.sensitivity(constants)

    def shard(self, constants, count, gateways, **options):
        rate = constants.load.peak_requests / count
        return shards.Shard(constants, rate, gateways, constants.seed, **options).run(SIMULATED)

    def blocks(self):
        names = [
            "answer", "load", "gateway", "validation", "rules", "shards", "places", "storage", "enrolment", "zone", "storm",
            "network", "cost", "assumed"]
        return {name: getattr(self, name + "_table")() for name in names}

    def answer_table(self):
        fleets, here, peak = self.fleet, self.here, self.constants.load.peak_requests
        stored = sum(shards.storage(self.constants, self.constants.load.devices).values())
        part = shards.storage(self.constants, self.constants.load.devices)["receipt"] / stored
        wait = self.waits[min(self.waits, key=lambda one: abs(one - fleets["utilisation_left"]))]
        rows = [
            ["gateway CPU at the peak",
             f"{fleets['busy']:.0f} vCPUs, {fleets['handshakes_busy'] / fleets['busy']:.0%} of it for handshakes"],
            ["gateways, one zone being spare",
             f"{fleets['machines']} of {self.constants.gateway.vcpus} vCPUs, in {self.constants.place.zones} zones"],
            ["databases", f"{self.count} shards of a primary and two standbys, each with {here['vcpus']:.2f} vCPU of work"],
            ["durable counters",
             f"{number(peak)}/s in {number(here['commits'] * self.count)} commits/s of {here['batch']:.0f} each"],
            ["latency added by the counter", f"p50 {here['p50_ms']:.1f} ms, p99 {here['p99_ms']:.1f} ms"],
            ["wait for a worker, one zone lost", f"p99 {wait['p99']:.1f} ms"],
            ["stored", f"{stored:.0f} GB and two copies, {part:.0%} of it Apple's receipts"],
            ["a zone fails at the peak",
             f"a third of the shards answer 503 for {self.constants.place.failover_s} s: "
             f"{millions(self.zone['missed'])} requests"],
            ["most enrolments in all shards",
             f"{self.count * shards.enrolments(self.constants)['near']:.0f}/s: **the bottleneck**"],
            ["cost without people",
             f"{(1 - self.costs['parts']['people'] / self.costs['total']) * self.costs['million']:.2f} EUR "
             "per million requests"],
        ]
        return table(["result", "value"], rows, left=2)

    def load_table(self):
        demand, of = self.load, self.constants.load
        rows = [
            ["requests/s: peak; mean of a day", f"{number(of.peak_requests)}; {number(demand['mean'])}"],
            ["requests/day: all; each device", f"{number(demand['day'])}; {demand['requests_per_device_day']:.0f}"],
            ["new connections/s at the peak", number(demand["connections_per_second"])],
            ["open connections; phones in a session",
             f"{number(demand['open_connections'])}; {number(demand['devices_in_use'])}"],
            [f"until {number(self.constants.gateway.sessions)} newer TLS sessions evict one from its process",
             f"{demand['session_table_seconds'](self.fleet['processes']):.0f} s"],
            [f"enrolments/s: all devices in {of.campaign_days} days; new phones afterwards",
             f"{demand['campaign']:.1f}; {demand['churn']:.1f}"],
            [f"certificates/s, each renewed after {of.certificate_days} days", f"{demand['renewals']:.0f}"],
            ["enrolments/s if all apps make new keys in one day", f"{demand['one_day']:.0f}"],
        ]
        return table(["load", "value"], rows)

    def gateway_table(self):
        fleets, gateway = self.fleet, self.constants.gateway
        rows = [
            ["busy with attested requests", f"{fleets['requests_busy']:.1f} vCPUs"],
            ["of that, bare verification of signatures",
             f"{self.constants.load.peak_requests * gateway.verification_us / 1e6:.1f} vCPUs"],
            ["busy with handshakes", f"{fleets['handshakes_busy']:.1f} vCPUs"],
            ["machines: all; in each zone for each shard", f"{fleets['machines']}; {fleets['each']}"],
            ["workers busy: all zones; one lost", f"{fleets['utilisation']:.0%}; {fleets['utilisation_left']:.0%}"],
            ["committing thread busy: all zones; one lost",
             f"{fleets['commit_thread']:.0%}; {fleets['commit_thread_left']:.0%}"],
            ["connections per machine: all zones; one lost",
             f"{number(fleets['connections_each'])}; {number(fleets['connections_left'])}"],
            ["memory of connections and devices, one lost", f"{fleets['memory_gib']:.1f} GiB of {gateway.memory_gib}"],
            [f"devices in use per machine, of {self.constants.registry.known_devices:,} that it remembers",
             number(fleets["devices_each"])],
        ]
        return table(["gateways", "value"], rows)

    def validation_table(self):
        rows = []
        for store, part, was, says in self.validation:
            rate, expected = was["commits_per_second"] * was["batch"], says["commits_per_second"] * says["batch"]
            rows.append([
                store, f"{part:.0%}", f"{was['commits_per_second']:.0f} of {was['batch']:.1f}",
                f"{says['commits_per_second']:.0f} of {says['batch']:.1f}", f"{rate:.0f}", f"{expected:.0f}"])
        compared = table(["registry", "load", "commits/s", "model", "requests/s", "model"], rows, left=2)
        others = ", ".join(
            f"{said['commits_per_second']:.0f} of {said['batch']:.1f} with {sync} us" for sync, said in self.by_sync.items())
        said = (
            f"\"800 of 9\" is 800 commits/s of 9 counters each. Measured by {self.constants.validation['source']}; simulated with seed "
            f"{self.constants.seed} and syncs of {self.constants.registry.sync_us:.0f} us. A file at half load would have {others}.")
        return f"{compared}\n\n" + textwrap.fill(said, COLUMNS, break_long_words=False, break_on_hyphens=False)

    def rules_table(self):
        of, said = self.constants.place, shards.needed(self.constants)
        rows = [
            [f"a primary's processors at most {of.database_busy:.0%} busy", f"{said['processor']:.1f}"],
            [f"log at most {of.log_busy:.0%} of its disk's rate", f"{said['log']:.1f}"],
            [f"restored from a backup within {of.restore_hours:.0f} h", f"{said['restore']:.1f}"],
            ["enrolments and renewals at three times their mean", f"{said['enrolment']:.1f}"],
            [f"a lost database shuts out at most {of.most_lost:.1%} of devices", f"{said['blast']:.0f}"],
        ]
        return table(["rule", "shards"], rows + [["**chosen**: next power of two", f"**{self.count}**"]])

    def shards_table(self):
        rows = []
        for count, said in self.by_count.items():
            if count not in SHOWN:
                continue
            rows.append([
                f"{count}", number(self.constants.load.peak_requests / count), f"{said['commits']:.0f}", f"{said['batch']:.1f}",
                f"{said['p50_ms']:.1f}", f"{said['p99_ms']:.1f}", f"{said['sync_busy']:.0%}",
                f"{said['vcpus']:.2f}", f"{said['log_mb']:.1f}"])
        return table(
            ["shards", "counters/s each", "commits/s", "per commit", "p50 ms", "p99 ms", "syncing", "vCPUs busy", "log MB/s"],
            rows)

    def places_table(self):
        rows = [[label, f"{said['batch']:.1f}", f"{said['p50_ms']:.1f}", f"{said['p99_ms']:.1f}"]
                for label, said in [*self.places, ("no standby: one host, no zone", self.alone)]]
        return table([f"{self.count} shards", "counters per commit", "p50 ms", "p99 ms"], rows)

    def storage_table(self):
        whole = shards.storage(self.constants, self.constants.load.devices)
        names = {"receipt": "`receipt`", "counter": "`counter`, fillfactor 60", "binding": "`binding`, one each",
                 "certificate": "`issued_certificate`, one each", "attestation": "`attestation`, a digest", "device": "`device`"}
        rows = [[names[name], f"{self.constants.registry.__dict__[name + '_bytes']:.0f}", f"{size:.0f}",
                 f"{size / self.count:.1f}"]
                for name, size in whole.items()]
        total = sum(whole.values())
        rows.append(["**all**", f"**{total * 1e9 / self.constants.load.devices:.0f}**", f"**{total:.0f}**",
                     f"**{total / self.count:.1f}**"])
        return table(["table with indexes", "bytes/device", "GB", "GB/shard"], rows)

    def enrolment_table(self):
        rate, of = shards.enrolments(self.constants), self.constants.load
        # Each takes as long as an enrolment: both are a key binding.
        renewals = self.load["renewals"]
        rows = []
        for label, each in (("in the primary's zone", rate["near"]), ("in another zone", rate["far"])):
            rows.append([label, f"{each:.0f}", f"{each * self.count:.0f}", f"{of.devices / (each * self.count) / 86400:.1f}",
                         f"{renewals / (each * self.count):.0%}"])
        return table(
            ["enrolment role", "enrolments/s per shard", "all shards", "days for all devices", "used by renewals"],
            rows)

    def zone_table(self):
        of, rows = self.zone, []
        rows.append(["connections lost", number(of["lost_connections"])])
        rows.append(["phones that reconnect at once", number(of["coming_back"])])
        rows.append(["until they are connected", f"{of['clear']:.0f} s" if of["clear"] else "not within two minutes"])
        rows.append(["most handshakes/s meanwhile", number(max(point[3] for point in of["points"]))])
        stall = self.constants.registry.waiting_counters / (self.constants.load.peak_requests / self.fleet["machines"])
        rows.append(["silence of a database until gateways refuse at once", f"{stall:.1f} s"])
        rows.append(["requests refused or not made", millions(of["missed"])])
        return table(["a zone fails at the peak", "value"], rows)

    def storm_table(self):
        rows = []
        for spread, said in self.storms.items():
            took = said["recovered"]
            rows.append([f"{spread} s", number(self.constants.storm.waiting_devices / spread), number(said["capacity"]),
                         f"{took:.0f} s" if took else "not within two hours"])
        return table(["phones return within", "handshakes/s wanted", "possible", "99 % connected after"], rows)

    def network_table(self):
        flow, peak = costs.traffic(self.constants), self.constants.load.peak_requests
        log = costs.replication(self.constants)
        rows = [
            ["from phones", f"{flow['in']:.0f}", f"{flow['in_gbit']:.1f}"],
            ["of that, the proof's three fields",
             f"{self.constants.bytes.proof}", f"{self.constants.bytes.proof * 8 * peak / 1e9:.1f}"],
            ["to phones", f"{flow['out']:.0f}", f"{flow['out_gbit']:.1f}"],
            ["log to two standbys", f"{log:.0f}", f"{log * 8 * peak / 1e9:.1f}"],
        ]
        return table(["traffic", "bytes/request", "Gbit/s at the peak"], rows)

    def cost_table(self):
        parts, total = self.costs["parts"], self.costs["total"]
        rows = [[name, number(value), f"{value / total:.0%}"] for name, value in parts.items()]
        rows.append(["**all**", f"**{number(total)}**", ""])
        return table(["for", "EUR/year", "share"], rows) + (
            f"\n\nThat is {self.costs['million']:.2f} EUR per million requests, {self.costs['device'] * 100:.1f} cents per device "
            "and year.")

    def assumed_table(self):
        entries = {f"{group}.{name}": entry for (group, name), entry in self.constants.entries.items()}
        rows = [[f"`{name}`", f"{entry['value']:,} {entry['unit']}".strip(), entry["source"]]
                for name, entry in ((name, entries[name]) for name in DECIDING)]
        return table(["assumption", "value", "meaning"], rows, left=3)
