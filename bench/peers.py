"""The servers that are measured, and the one behind them: configuration, start, stop."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

BODY_BYTES = 1024


class Failed(Exception):
    """The run cannot go on; the message is for the person who started it."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spawn(command, core, **options):
    """Starts a process on one core, or on those of a set, out of reach of the terminal's Ctrl-C: the script stops it itself."""
    cores = core if isinstance(core, set) else {core}
    return subprocess.Popen(
        [str(part) for part in command], start_new_session=True, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores), **options)


class Server:
    """One server process on loopback. `ports` maps a variant to its port; the first is the main one."""

    name = ""
    variants = ["main"]
    # Where WebSockets below /tunnel lead; None if nothing that is measured needs them.
    tunnel_port = None
    # Workers, and the core or cores that they have: looked at when the server starts.
    worker_count = 1

    def __init__(self, directory, certificates, upstream_ports, core):
        """`upstream_ports`: of the servers behind. /bench goes to the first of them, /balanced to all."""
        self.directory = Path(directory) / self.name
        self.directory.mkdir()
        self.certificates = Path(certificates)
        self.upstream_ports = upstream_ports
        self.core = core
        self.ports = {variant: free_port() for variant in self.variants}
        self.process = None

    def command(self):
        raise NotImplementedError

    def configuration(self):
        raise NotImplementedError

    def start(self):
        self.configuration_file.write_text(self.configuration())
        with open(self.directory / "output", "wb") as output:
            self.process = spawn(self.command(), self.core, stdout=output, stderr=output)
        for port in self.ports.values():
            self._await(port)

    def stop(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                # The group holds this server and its workers, nothing else.
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None

    @property
    def configuration_file(self):
        return self.directory / "conf"

    @property
    def worker(self):
        """The process that serves requests."""
        return self.process.pid

    @property
    def workers(self):
        """All whose CPU time is the server's."""
        return [self.worker]

    def _await(self, port):
        for _ in range(200):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        output = (self.directory / "output").read_text(errors="replace")
        raise Failed(f"{self.name} does not listen on port {port}:\n{output[-2000:]}")


class Nginx(Server):
    name = "nginx"
    variants = ["tickets", "cache"]

    def tunnels(self):
        # As nginx's documentation has it for WebSockets.
        return "" if self.tunnel_port is None else f"""
    location /tunnel {{
      proxy_pass http://127.0.0.1:{self.tunnel_port};
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_read_timeout 600s;
    }}"""

    def command(self):
        return ["nginx", "-p", self.directory, "-c", self.configuration_file, "-e", self.directory / "errors"]

    @property
    def worker(self):
        return self.workers[0]

    @property
    def workers(self):
        master = self.process.pid
        return [int(child) for child in Path(f"/proc/{master}/task/{master}/children").read_text().split()]

    def preamble(self):
        return (
            f"daemon off; pid {self.directory}/pid; worker_processes {self.worker_count}; worker_rlimit_nofile 16384;\n"
            "events { worker_connections 8192; }\n")

    def paths(self):
        kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        return "".join(f"  {kind}_temp_path {self.directory}/{kind};\n" for kind in kinds)

    def configuration(self):
        listeners = "".join(
            f"""
  server {{
    listen 127.0.0.1:{self.ports[variant]} ssl http2;
    ssl_certificate {self.certificates}/server.pem;
    ssl_certificate_key {self.certificates}/server.key;
    ssl_client_certificate {self.certificates}/gms-ca.pem;
    ssl_verify_client on;
    ssl_protocols TLSv1.3;
    ssl_session_cache shared:{variant}:20m;
    ssl_session_tickets {"on" if variant == "tickets" else "off"};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
    location / {{ proxy_pass http://bench; }}
    location /balanced {{ proxy_pass http://balanced; }}
    location /large {{
      proxy_pass http://bench;
      client_max_body_size 0; proxy_request_buffering off; proxy_max_temp_file_size 0;
    }}{self.tunnels()}
  }}"""
            for variant in self.variants)
        upstreams = "".join(
            f"  upstream {name} {{{''.join(f' server 127.0.0.1:{port};' for port in ports)} keepalive 64; keepalive_requests 1000000000; }}\n"
            for name, ports in (("bench", self.upstream_ports[:1]), ("balanced", self.upstream_ports)))
        upstreams += "  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }\n" if self.tunnel_port else ""
        return f"""{self.preamble()}
http {{
{self.paths()}
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
{upstreams}{listeners}
}}
"""


class HAProxy(Server):
    name = "haproxy"
    variants = ["tickets", "cache"]

    def command(self):
        return ["haproxy", "-db", "-q", "-f", self.configuration_file]

    def configuration(self):
        pair = self.directory / "server.pem"
        pair.write_text(
            (self.certificates / "server.pem").read_text() + (self.certificates / "server.key").read_text())
        binds = "".join(
            f"  bind 127.0.0.1:{self.ports[variant]} ssl crt {pair} ca-file {self.certificates}/gms-ca.pem"
            f" alpn h2,http/1.1 verify required ssl-min-ver TLSv1.3{' no-tls-tickets' if variant == 'cache' else ''}\n"
            for variant in self.variants)
        servers = "".join(f"  server s{port} 127.0.0.1:{port}\n" for port in self.upstream_ports)
        tunnel, tunnels = "", ""
        if self.tunnel_port is not None:
            tunnel = "  use_backend tunnels if { path_beg /tunnel }\n"
            tunnels = f"backend tunnels\n  timeout tunnel 600s\n  server tunnels 127.0.0.1:{self.tunnel_port}\n"
        return f"""global
  nbthread {self.worker_count}
  maxconn 8000
defaults
  mode http
  http-reuse always
  option forwardfor
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
  timeout http-request 30s
frontend bench
{binds}{tunnel}  use_backend balanced if {{ path_beg /balanced }}
  default_backend bench
backend bench
  server bench 127.0.0.1:{self.upstream_ports[0]}
backend balanced
  balance roundrobin
{servers}{tunnels}"""


class AttestGate(Server):
    name = "attestgate"
    variants = ["cache"]
    binary = None
    # Where devices and counters are kept; None if nothing that is measured needs them.
    registry = None
    app = "ABCDE12345.org.example.bench"
    _spent = re.compile(r"registry: (\d+) counters in (\d+) commits")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.counters = self.commits = 0

    def command(self):
        return [self.binary, "run", "--config", self.configuration_file]

    def import_devices(self, registrations):
        """On the registry's file, while the gateway does not run."""
        self.configuration_file.write_text(self.configuration())
        command = [self.binary, "device", "import", "--config", self.configuration_file, registrations]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failed(f"the devices cannot be registered: {done.stdout}")

    def stop(self):
        was_running = self.process is not None
        super().stop()
        if was_running and self.registry is not None:
            # What the gateway says at its end of all its life; there may be several in one run.
            lines = self._spent.findall((self.directory / "output").read_text(errors="replace"))
            if len(lines) == 1:
                self.counters += int(lines[0][0])
                self.commits += int(lines[0][1])

    def configuration(self):
        proofs = "" if self.registry is None else f"""
  - {{name: attested, host: localhost, path: /attested, require: request-proof, upstream: bench}}
registry: {{path: {self.registry}/registry.sqlite, secret: {self.registry}/challenge.secret}}
apps: [{{id: {self.app}, environment: simulator, counter: strict}}]"""
        tunnels, tunnel = "", ""
        if self.tunnel_port is not None:
            tunnels = f"\n  tunnels: {{servers: [127.0.0.1:{self.tunnel_port}], connections: 8000}}"
            tunnel = """
  - {name: tunnel, host: localhost, path: /tunnel, require: certificate, upstream: tunnels, websocket: allowed}
limits: {tunnels: 8000}"""
        return f"""workers: {self.worker_count}
listeners:
  - address: 127.0.0.1:{self.ports["cache"]}
    protocols: [h2, http/1.1]
    tls: {{certificate: {self.certificates}/server.pem, key: {self.certificates}/server.key}}
    clients: {{authorities: [{self.certificates}/gms-ca.pem]}}
upstreams:
  bench: {{servers: [127.0.0.1:{self.upstream_ports[0]}]}}
  balanced: {{servers: [{", ".join(f"127.0.0.1:{port}" for port in self.upstream_ports)}]}}{tunnels}
routes:
  - {{name: bench, host: localhost, path: /bench, require: certificate, upstream: bench}}
  - {{name: balanced, host: localhost, path: /balanced, require: certificate, upstream: balanced}}
  - {{name: large, host: localhost, path: /large, require: certificate, upstream: bench, content_limit: 1GiB}}{tunnel}{proofs}
log: {{access: off}}
"""


class Origin(Nginx):
    """The services behind, one on each port: answer every request with the same kilobyte from memory, but for large content."""

    name = "origin"
    variants = ["first", "second"]
    # What /large/download answers with, and the most that /large/upload takes.
    large_bytes = 64 << 20

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.direct_port = free_port()

    def configuration(self):
        with open(self.directory / "download", "wb") as file:
            file.truncate(self.large_bytes)
        service = f"http://127.0.0.1:{self.ports['first']}"
        return f"""{self.preamble()}
http {{
{self.paths()}
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  server {{
    {" ".join(f"listen 127.0.0.1:{port};" for port in self.ports.values())}
    location / {{ return 200 "{"x" * BODY_BYTES}"; }}
    location = /large/download {{ alias {self.directory}/download; sendfile on; }}
    # `return` would answer before the content has come: this reads all of it, into memory, before it asks itself for an answer.
    location = /large/upload {{
      client_max_body_size 0; client_body_buffer_size {self.large_bytes + 4096};
      proxy_pass {service}/; proxy_pass_request_body off; proxy_set_header Content-Length "";
    }}
  }}
  # The same without anybody between.
  server {{
    listen 127.0.0.1:{self.direct_port} ssl;
    ssl_certificate {self.certificates}/server.pem;
    ssl_certificate_key {self.certificates}/server.key;
    ssl_client_certificate {self.certificates}/gms-ca.pem;
    ssl_verify_client on;
    ssl_protocols TLSv1.3;
    location / {{ return 200 "{"x" * BODY_BYTES}"; }}
  }}
}}
"""


class Direct:
    """The service as a client meets it that nothing stands in front of."""

    name = "direct"
    variants = ["main"]

    def __init__(self, origin):
        self.ports = {"main": origin.direct_port}
        self.workers = origin.workers


ALL = {kind.name: kind for kind in (AttestGate, Nginx, HAProxy)}
