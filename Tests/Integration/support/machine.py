"""A machine that is thrown away: systemd, booted on a copy of this one's files in namespaces of its own.

Units run there as they do on an operator's machine, sandbox and all; packages are installed and purged there, and this machine
knows nothing of it. Its network is a loopback of its own."""

import os
import shutil
import subprocess
from pathlib import Path

from support.paths import ENVIRONMENT, PATIENCE
from support.waiting import eventually

SCRIPT = Path(__file__).with_name("machine.sh")
SYSTEMD = "/usr/lib/systemd/systemd"


def groups():
    """Where cgroups of version 2 are; beside those of version 1 they have a directory of their own."""
    for place in [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]:
        if (place / "cgroup.procs").exists() and os.access(place, os.W_OK):
            return place
    return None


def obstacle():
    """Why there can be none here, for tests that are skipped; None if there can."""
    if os.geteuid() != 0:
        return "namespaces are for root to make"
    if not os.path.exists(SYSTEMD):
        return "systemd is not installed"
    if not groups():
        return "there is no cgroup hierarchy of version 2 to write to"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--net", "--cgroup", "bash", "-c",
         "mount --make-rprivate / && mount -t tmpfs x /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
         "mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w x /mnt/r"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces with an overlay: {tried.stderr.strip()}"


class Machine:
    def __init__(self, directory):
        directory.mkdir()
        self.group = groups() / f"attestgate-test-{os.getpid()}"
        self.group.mkdir()
        self.log = directory.with_suffix(".log").open("w+")
        self.process = subprocess.Popen(
            ["bash", SCRIPT, directory, self.group], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=ENVIRONMENT)
        try:
            self.init = eventually(self._child, "systemd to be there")
            eventually(lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() == "running", "the boot")
        except BaseException:
            self.log.seek(0)
            print(self.log.read())
            self.close()
            raise

    def _child(self):
        assert self.process.poll() is None, "the machine did not start"
        pids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not pids or os.readlink(f"/proc/{pids[0]}/exe") not in (SYSTEMD, "/lib/systemd/systemd"):
            return None
        return int(pids[0])

    def path(self, path):
        """A file of the machine, as it is to be found from here."""
        return Path(f"/proc/{self.init}/root{path}")

    def put(self, here, there):
        shutil.copyfile(here, self.path(there))

    def run(self, *command, check=True, user=None, directory="/root"):
        if user:
            command = ["runuser", "-u", user, "--", *command]
        done = subprocess.run(
            ["nsenter", "--target", str(self.init), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
             f"--wd=/proc/{self.init}/root{directory}", "--", *map(str, command)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * PATIENCE,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                 "SWIFT_BACKTRACE": "enable=no"})
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def shell(self, line, **options):
        """A line as an operator types it."""
        return self.run("bash", "-c", line, **options)

    def property(self, unit, name):
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()

    def journal(self, unit):
        return self.run("journalctl", "--unit", unit, "--no-pager", "--output=cat", check=False).stdout

    def close(self):
        if getattr(self, "init", None):
            # With the first of its processes all others end.
            os.kill(self.init, 9)
        self.process.kill()
        self.process.wait()
        self.log.close()
        # The kernel counts processes out of their groups a moment after they are gone.
        eventually(self._without_groups, "the processes' end")

    def _without_groups(self):
        groups = [path for path in self.group.rglob("*") if path.is_dir()] if self.group.exists() else []
        for group in [*sorted(groups, reverse=True), self.group]:
            try:
                group.rmdir()
            except OSError:
                continue
        return not self.group.exists()
