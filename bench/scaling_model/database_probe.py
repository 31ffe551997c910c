"""What PostgreSQL stores for a device and writes for a counter: the gateway's own tables and its own statement, on a real
PostgreSQL, without a gateway. Sizes and bytes of log are the same on a busy machine; processor time is only nearly so."""

import contextlib
import ctypes
import ctypes.util
import json
import os
import random
import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "Sources" / "Registry" / "PostgreSQL"
BATCHES = [1, 10, 100]
# As long as those that Apple gives with an attestation; more of them are longer than shorter.
RECEIPT = 3_700


def swift_strings(text):
    """The string literals of a piece of Swift, each once, in their order."""
    found = re.findall(r'"""\n([\s\S]*?)\n *"""|"([A-Z][^"\n]*)"', text)
    # The one number that the program puts in.
    return [re.sub(r"\\\([^)]*\)", "65536", block or line) for block, line in found]


def schema():
    text = (SOURCES / "PostgreSQLSchema.swift").read_text()
    return swift_strings(text[text.index("private static let first"):])


def commit_statement():
    text = (SOURCES / "CounterStatements.swift").read_text()
    return swift_strings(text[text.index("commit: "):])[0]


def big_array(kind, items):
    """PostgreSQL's array_recv, as the gateway sends it."""
    return struct.pack(">IIIII", 1, 0, kind, len(items), 1) + b"".join(
        struct.pack(">I", len(item)) + item for item in items)


def integers(values):
    return big_array(20, [struct.pack(">q", value) for value in values])


class Connection:
    """As much of libpq as one prepared statement needs."""

    def __init__(self, parameters):
        self.libpq = ctypes.CDLL(ctypes.util.find_library("pq"))
        for name in ("PQconnectdb", "PQprepare", "PQexecPrepared"):
            getattr(self.libpq, name).restype = ctypes.c_void_p
        for name in ("PQerrorMessage", "PQcmdTuples"):
            getattr(self.libpq, name).restype = ctypes.c_char_p
        self.connection = ctypes.c_void_p(self.libpq.PQconnectdb(parameters.encode()))
        if self.libpq.PQstatus(self.connection):
            raise RuntimeError(self.libpq.PQerrorMessage(self.connection).decode())
        self.backend = self.libpq.PQbackendPID(self.connection)

    def prepare(self, sql):
        self._end(self.libpq.PQprepare(self.connection, b"commit", sql.encode(), 0, None))

    def run(self, arguments):
        count = len(arguments)
        result = self.libpq.PQexecPrepared(
            self.connection, b"commit", count, (ctypes.c_char_p * count)(*arguments),
            (ctypes.c_int * count)(*map(len, arguments)), (ctypes.c_int * count)(*[1] * count), 1)
        return self._end(result)

    def _end(self, result):
        result = ctypes.c_void_p(result)
        status, rows = self.libpq.PQresultStatus(result), self.libpq.PQcmdTuples(result)
        self.libpq.PQclear(result)
        if status not in (1, 2):
            raise RuntimeError(self.libpq.PQerrorMessage(self.connection).decode())
        return int(rows or 0)


def fill(database, devices):
    """Devices as enrolment leaves them, each with one binding, one certificate and its receipt."""
    key = "sha256(int8send({}))"
    database.sql(
        f"""
        SET search_path = attestgate;
        INSERT INTO store (one, id, epoch) VALUES (1, '\\x{bytes(16).hex()}', '\\x{bytes(16).hex()}');
        INSERT INTO feed VALUES (1, 0);
        INSERT INTO device (hardware_key, app, platform, environment, point, registered_at, activated_at, subject)
            SELECT {key.format("n")}, 'TEAMID1234.org.example.health', 'ios', 'production',
                {key.format("-n")} || {key.format("-n - 7")} || '\\x04', 1763720000, 1763720000, {key.format("n + 99")}
            FROM generate_series(1, {devices}) n;
        INSERT INTO counter (device, highest, bits, shown_extensions)
            SELECT id, 0, decode(repeat('ff', 128), 'hex'), 0 FROM device;
        INSERT INTO binding (key, device, created_at, ends_at)
            SELECT {key.format("id * 2")}, id, 1763720000, 1766312000 FROM device;
        INSERT INTO issued_certificate (serial, binding, not_after)
            SELECT substring({key.format("device * 3")}, 1, 16), key, 1766312000 FROM binding;
        INSERT INTO attestation (device, digest, certificate_key)
            SELECT id, {key.format("id * 5")}, {key.format("id * 2")} FROM device;
        """, "attestgate")
    # Nothing in one can be compressed: certificates and signatures.
    few = devices // 20
    database.sql(
        f"""
        SET search_path = attestgate;
        INSERT INTO receipt (device, risk_metric, next_at, content)
            SELECT id, 1, 1763720000, substring((SELECT string_agg(sha256(int8send(id * 1000 + piece)), '')
                FROM generate_series(1, {RECEIPT // 32 + 1}) piece), 1, {RECEIPT}) FROM device WHERE id <= {few};
        """, "attestgate")
    return few


def sizes(database, devices, receipts):
    tables = ["device", "counter", "binding", "attestation", "issued_certificate", "receipt"]
    rows = database.sql(
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relnamespace = 'attestgate'::regnamespace "
        f"AND relname IN ({', '.join(f'{table!r}' for table in tables)})", "attestgate")
    found = {name: int(size) for name, size in (line.split("|") for line in rows.splitlines())}
    return {name: round(found[name] / (receipts if name == "receipt" else devices)) for name in tables}


def processor_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def updates(database, connection, devices, batch, count, state, chosen):
    """Spends `count` counters of devices chosen at random, `batch` in a commit."""
    ones, epoch = b"\xff" * 128, bytes(16)
    before = int(database.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')", "attestgate"))
    busy = processor_seconds(connection.backend)
    for _ in range(count // batch):
        picked = sorted(chosen.sample(range(1, devices + 1), batch))
        old = [state.get(device, 0) for device in picked]
        window = [ones] * batch
        done = connection.run([
            integers(picked), integers([0] * batch), integers(old), big_array(17, window), integers([0] * batch),
            integers([value + 1 for value in old]), big_array(17, window), integers([0] * batch), epoch])
        assert done == batch, (done, batch)
        state.update((device, value + 1) for device, value in zip(picked, old))
    busy = processor_seconds(connection.backend) - busy
    after = int(database.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')", "attestgate"))
    return {"log": (after - before) / count, "cpu": busy / count * 1e6}


def measure(devices=100_000, count=20_000):
    sys.path.insert(0, str(ROOT / "Tests" / "Integration"))
    from postgresql import PostgreSQL
    with contextlib.closing(PostgreSQL()) as database:
        # What is measured is how much, and not how long.
        database.configure(synchronous_commit="off", checkpoint_timeout="1d", max_wal_size="16GB", autovacuum="off")
        database.sql("CREATE SCHEMA attestgate; SET search_path = attestgate; " + "; ".join(schema()), "attestgate")
        receipts = fill(database, devices)
        figures = {"devices": devices, "bytes_per_device": sizes(database, devices, receipts)}
        database.sql("VACUUM ANALYZE", "attestgate")
        connection = Connection(
            f"host={database.directory} port={database.port} user=root dbname=attestgate options='-c search_path=attestgate'")
        connection.prepare(commit_statement())
        chosen, state = random.Random(1), {}
        # The first change of a page after a checkpoint writes all of it.
        database.sql("CHECKPOINT")
        figures["first_touch"] = updates(database, connection, devices, 10, 1_000, state, chosen)
        updates(database, connection, devices, 100, 4 * devices // 100 * 100, state, chosen)
        figures["batches"] = {
            batch: updates(database, connection, devices, batch, count, state, chosen) for batch in BATCHES}
        counts = database.sql(
            "SELECT pg_stat_force_next_flush(); SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
            "WHERE relname = 'counter'", "attestgate").splitlines()[-1]
        everything, hot = map(int, counts.split("|"))
        figures["hot_share"] = hot / everything
        figures["counter_table_growth"] = sizes(database, devices, receipts)["counter"] / figures["bytes_per_device"]["counter"]
    return figures


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
