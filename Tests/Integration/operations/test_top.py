"""`attestgate top`: what it shows, in a terminal and without one, and that it leaves the terminal as it was."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from support.client import Client, get
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
COLOUR = re.compile(r"\x1b\[[0-9]+m")


class Terminal:
    """A program in a pseudo-terminal, and the screen that its output makes."""

    def __init__(self, *arguments, size=(40, 120), **environment):
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        self.process = subprocess.Popen(
            [BINARY, *map(str, arguments)], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env={**ENVIRONMENT, "TERM": "xterm", **environment}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        if select.select([self.master], [], [], 0.05)[0]:
            self.text += os.read(self.master, 1 << 16).decode()

    @property
    def frames(self):
        """Complete frames, without what drives the terminal."""
        parts = self.text.split("\x1b[H")[1:]
        # The terminal adds a carriage return to each line feed.
        return [re.split(r"\r+\n", COLOUR.sub("", part[:part.index("\x1b[J")]).replace("\x1b[K", ""))
                for part in parts if "\x1b[J" in part]

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what} in vain: {self.text[-3000:]!r}"
            self.read()

    def shows(self, *pieces):
        self.until(
            lambda: any(all(piece in "\n".join(frame) for piece in pieces) for frame in self.frames), pieces)

    def press(self, key):
        os.write(self.master, key)

    def ended(self):
        self.until(lambda: self.process.poll() is not None, "the end")
        while select.select([self.master], [], [], 0)[0]:
            self.read()
        after = termios.tcgetattr(self.slave)
        # Of a terminal that was let go of by its session, the rest is not the program's.
        assert after == self.before, "the terminal is as it was"
        assert self.text.count(ENTER) == self.text.count(LEAVE) == 1 and self.text.rstrip().endswith(LEAVE)
        assert "\x1b[?25h" in self.text
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    opened = []

    def start(gateway, *arguments, **options):
        opened.append(Terminal("top", "--config", gateway.conf_path, *arguments, **options))
        return opened[-1]
    yield start
    for each in opened:
        each.close()


def test_top_shows_the_gateways_activity_live(start_attested, terminal):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    screen = terminal(gateway)
    screen.shows("ready", "generation 1", f"process {gateway.process.pid}", "registry available", "no denials")
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        assert client.exchange(get("/b")).status == 401
        screen.shows("proof_required", "connections 1")
    screen.shows("records", attested.upstream.address, "usable")
    # A figure of the interval in which it happened: a request, with a time.
    screen.until(
        lambda: any(
            re.match(r"verification +(?!0\.00)[0-9.]+ +[0-9.]+ [um]s", line) for frame in screen.frames for line in frame),
        "the time of the verification")
    screen.press(b"q")
    assert screen.ended() == 0


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_a_key_ends_top_and_restores_the_terminal(start_gateway, own_upstream, terminal, key):
    screen = terminal(start_gateway({"service": own_upstream.address}))
    screen.shows("ready")
    screen.press(b"x")
    screen.until(lambda: len(screen.frames) >= 2, "another frame: other keys mean nothing")
    screen.press(key)
    assert screen.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_top_and_restores_the_terminal(start_gateway, own_upstream, terminal, number):
    screen = terminal(start_gateway({"service": own_upstream.address}))
    screen.shows("ready")
    screen.process.send_signal(number)
    assert screen.ended() == 0


def test_top_follows_the_size_of_the_terminal(start_gateway, own_upstream, terminal):
    screen = terminal(start_gateway({"service": own_upstream.address}), size=(40, 120))
    screen.shows("PHASE", "ROUTE")
    screen.resize(5, 30)
    screen.until(
        lambda: len(screen.frames[-1]) == 5 and all(len(line) <= 30 for line in screen.frames[-1]), "the small page")
    screen.resize(50, 200)
    screen.until(lambda: "ROUTE" in "\n".join(screen.frames[-1]), "the large one")
    screen.press(b"q")
    assert screen.ended() == 0


def test_top_survives_a_restart_of_the_gateway(start_gateway, own_upstream, terminal):
    gateway = start_gateway({"service": own_upstream.address})
    screen = terminal(gateway)
    screen.shows("ready", f"process {gateway.process.pid}")
    gateway.halt()
    screen.shows("the gateway is not reachable")
    gateway.start()
    screen.shows("ready", f"process {gateway.process.pid}")
    screen.press(b"q")
    assert screen.ended() == 0


def test_colours_are_omitted_on_request(start_gateway, own_upstream, terminal):
    gateway = start_gateway({"service": own_upstream.address})
    for environment, has_colours in [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]:
        screen = terminal(gateway, **environment)
        screen.shows("ready")
        assert bool(COLOUR.search(screen.text)) == has_colours, environment
        screen.press(b"q")
        assert screen.ended() == 0


@pytest.mark.parametrize("arguments", [["--once"], []])
def test_for_scripts_top_prints_one_page_without_control_sequences(start_gateway, own_upstream, phone, arguments):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        done = attestgate("top", *arguments, "--config", gateway.conf_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout and "connections 1" in done.stdout
    for heading in ["PHASE", "UPSTREAM", "ROUTE"]:
        assert sum(line.startswith(heading) for line in done.stdout.splitlines()) == 1


def test_for_scripts_top_fails_without_a_gateway(tmp_path):
    conf = tmp_path / "attestgate.yaml"
    conf.write_text(f"administration:\n  socket: {tmp_path}/admin.sock\n")
    done = attestgate("top", "--once", "--config", conf)
    assert done.returncode == 1 and "is not reachable: no gateway runs with this socket" in done.stderr and done.stdout == ""
    assert attestgate("top", "--interval", "0", "--config", conf).returncode == 2
