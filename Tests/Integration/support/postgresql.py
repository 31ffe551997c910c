"""A real PostgreSQL, on a Unix socket or with TLS on loopback, that a test may stop, crash and start."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.paths import PATIENCE
from support.ports import uncommon_port
from support.waiting import eventually


def binaries():
    """Where Debian keeps the newest one; nothing of it is on the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


class PostgreSQL:
    def __init__(self, identity=None, password=None, primary=None, clients=None, name=""):
        """
        `identity`: whose certificate it has, on 127.0.0.1 with TLS; `password`: of the role attestgate, which it asks for then,
        or with `clients` for a certificate of that authority, which names the role.
        `primary`: another one, whose standby this is, by that `name`.
        """
        self.binaries = binaries()
        if self.binaries is None:
            pytest.skip("there is no /usr/lib/postgresql/*/bin/initdb")
        # PostgreSQL refuses to run as root. A short path: it is that of a socket.
        self.user = "postgres" if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="attestgate-pg-", dir="/tmp"))
        self.data = self.directory / "data"
        self.process = None
        self._own(self.directory)
        self.settings = {"listen_addresses": "", "unix_socket_directories": str(self.directory), "max_connections": 50}
        if name:
            self.settings["cluster_name"] = name
        self.port = 5432
        if primary:
            self._make("pg_basebackup", "-h", primary.directory, "-U", "root", "-D", self.data, "-R", "-c", "fast")
            # What counts once it is promoted.
            with open(self.data / "postgresql.auto.conf", "a") as file:
                file.write("synchronous_standby_names = 'ANY 1 (*)'\n")
            return self.start()
        self._make("initdb", "-D", self.data, "--auth=trust", "--username=root", "--no-sync")
        if identity:
            self._listen(identity, clients)
        try:
            self.start()
            self.sql("CREATE ROLE attestgate LOGIN" + (f" PASSWORD $${password}$$" if password else ""))
            self.sql("CREATE DATABASE attestgate OWNER attestgate")
        except BaseException:
            # Nobody else would.
            self.close()
            raise

    def _listen(self, identity, clients):
        self.port = uncommon_port()
        files = [("server.crt", identity.certificate), ("server.key", identity.key)]
        if clients:
            files.append(("clients.crt", clients.certificate))
            self.settings["ssl_ca_file"] = "clients.crt"
        for name, path in files:
            shutil.copy(path, self.data / name)
            self._own(self.data / name, 0o600)
        self.settings |= {"listen_addresses": "127.0.0.1", "port": self.port, "ssl": "on"}
        method = "cert" if clients else "scram-sha-256"
        (self.data / "pg_hba.conf").write_text(f"local all root trust\nhostssl all attestgate 127.0.0.1/32 {method}\n")

    def _own(self, path, mode=None):
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(path, entry.pw_uid, entry.pw_gid)
        if mode:
            os.chmod(path, mode)

    def _identity(self):
        return {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}

    def _make(self, program, *arguments):
        done = self._run(program, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout.decode()

    def _run(self, program, *arguments, **options):
        return subprocess.run(
            [self.binaries / program, *map(str, arguments)], cwd=self.directory, timeout=2 * PATIENCE,
            **self._identity(), **options)

    def start(self):
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [self.binaries / "postgres", "-D", self.data, *options], cwd=self.directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=open(self.directory / "log", "ab"), **self._identity())

        def answers():
            assert self.process.poll() is None, (self.directory / "log").read_text()
            return self._psql("SELECT 1", "postgres").returncode == 0
        eventually(answers, "PostgreSQL to start")

    def _psql(self, sql, database):
        return subprocess.run(
            [self.binaries / "psql", "-h", self.directory, "-p", str(self.port), "-U", "root", "-d", database, "-XAtqc",
             sql], capture_output=True, text=True, timeout=PATIENCE)

    def sql(self, sql, database="postgres"):
        done = self._psql(sql, database)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def standbys(self):
        """How many follow it, and have all that it has written."""
        return int(self.sql("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"))

    def configure(self, **settings):
        for name, value in settings.items():
            self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")

    def end_connections(self):
        """Of all gateways. Returns when they have ended."""
        self.sql(f"SELECT pg_terminate_backend(pid, {int(PATIENCE * 1000)}) FROM pg_stat_activity WHERE usename = 'attestgate'")

    def locked(self, table):
        """Within the block somebody else holds the whole table."""
        return self._meanwhile(f"LOCK TABLE attestgate.{table}", table, "AccessExclusiveLock")

    def snapshot(self):
        """Within the block nothing that the database holds now is thrown away."""
        return self._meanwhile(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM attestgate.store", "store", "AccessShareLock")

    @contextmanager
    def _meanwhile(self, statements, table, lock):
        """Within the block a transaction of somebody else is open, and holds that lock on the table."""
        other = subprocess.Popen(
            [self.binaries / "psql", "-h", self.directory, "-p", str(self.port), "-U", "root", "-d", "attestgate", "-XAtq"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            other.stdin.write(f"BEGIN; {statements};\n")
            other.stdin.flush()
            held = (
                "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE granted AND usename = 'root'"
                f" AND mode = '{lock}' AND relation = 'attestgate.{table}'::regclass")
            eventually(lambda: self.sql(held, "attestgate") == "1", f"{statements} to be done")
            yield
        finally:
            # The end of its input is the end of its transaction.
            other.stdin.close()
            other.wait(PATIENCE)

    def stop(self, number=signal.SIGINT):
        """SIGINT: in order, at once. SIGQUIT: as in a crash, to recover from its log."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    @contextmanager
    def stuck(self):
        """Within the block none of its processes runs."""
        processes = [self.process.pid, *self._children()]
        try:
            for number in processes:
                os.kill(number, signal.SIGSTOP)
            yield
        finally:
            for number in processes:
                try:
                    os.kill(number, signal.SIGCONT)
                except ProcessLookupError:
                    pass

    def _children(self):
        return [
            int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat")
            if path.read_text().rsplit(")", 1)[1].split()[1] == str(self.process.pid)]

    def close(self):
        if self.process and self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.directory)

    @property
    def conf(self):
        """The section of the conf file."""
        return {"hosts": [str(self.directory)]}
