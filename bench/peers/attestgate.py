"""What is measured beside the others."""

import json
import os
import re
import subprocess

from .server import Failed, Server


class AttestGate(Server):
    name = "attestgate"
    variants = ["tickets"]
    binary = None
    # Where devices and counters are kept; None if nothing that is measured needs them.
    registry = None
    app = "ABCDE12345.org.example.bench"
    # Where a decision point listens; None if no policy is measured.
    decision_port = None
    # Of the section of this name; the load comes from few keys.
    limits = {"connections_per_client": 100_000, "streams_per_client": 65_535}
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

    def registry_section(self):
        return f"{{path: {self.registry}/registry.sqlite, secret: {self.registry}/challenge.secret}}"

    def configuration(self):
        edge = ""
        if "edge" in self.ports:
            edge = f"""
  - address: 127.0.0.1:{self.ports["edge"]}
    tls: {{certificate: {self.certificates}/server.pem, key: {self.certificates}/server.key}}
    clients: {{authorities: [{self.certificates}/edge-ca.pem], names: [edge.internal]}}
    forwarded_certificate: {{format: rfc9440, authorities: [{self.certificates}/gms-ca.pem]}}
  - address: unix:{self.directory}/edge.sock
    socket: {{users: ['{os.getuid()}']}}
    forwarded_certificate: {{format: rfc9440, authorities: [{self.certificates}/gms-ca.pem]}}"""
        proofs = "" if self.registry is None else f"""
  - {{name: attested, host: localhost, path: /attested, require: request-proof, upstream: bench}}
registry: {self.registry_section()}
apps: [{{id: {self.app}, environment: simulator, counter: strict}}]"""
        if self.decision_port is not None:
            # Shorter than all others, so that they are compared last.
            proofs = f"""
  - {{name: device, host: localhost, path: /d, require: device, upstream: bench}}
  - {{name: conditions, host: localhost, path: /c, require: device, policy: known, upstream: bench}}
  - {{name: decided, host: localhost, path: /p, require: certificate, policy: decided, upstream: bench}}{proofs}
policies: {{known: {{admission: [operator]}}, decided: {{pdp: bench}}}}
decision_points:
  bench: {{kind: authzen, url: 'http://127.0.0.1:{self.decision_port}', path: /evaluation, cache: 1h}}"""
        tunnels, tunnel, limits = "", "", dict(self.limits)
        if self.upstream_socket is not None:
            tunnels = f"\n  unix: {{servers: ['unix:{self.upstream_socket}']}}"
            tunnel = "\n  - {name: unix, host: localhost, path: /unix, require: certificate, upstream: unix}"
        if self.tunnel_port is not None:
            tunnels += f"\n  tunnels: {{servers: [127.0.0.1:{self.tunnel_port}], connections: 8000}}"
            tunnel += """
  - {name: tunnel, host: localhost, path: /tunnel, require: certificate, upstream: tunnels, websocket: allowed}"""
            limits |= {"tunnels": 8000, "tunnels_per_device": 8000}
        return f"""workers: {self.worker_count}
listeners:
  - address: 127.0.0.1:{self.ports["tickets"]}
    protocols: [h2, http/1.1]
    tls: {{certificate: {self.certificates}/server.pem, key: {self.certificates}/server.key}}
    clients: {{authorities: [{self.certificates}/gms-ca.pem]}}{edge}
upstreams:
  bench: {{servers: [127.0.0.1:{self.upstream_ports[0]}]}}
  balanced: {{servers: [{", ".join(f"127.0.0.1:{port}" for port in self.upstream_ports)}]}}{tunnels}
routes:
  - {{name: bench, host: localhost, path: /bench, require: certificate, upstream: bench}}
  - {{name: balanced, host: localhost, path: /balanced, require: certificate, upstream: balanced}}
  - {{name: large, host: localhost, path: /large, require: certificate, upstream: bench, content_limit: 1GiB}}{tunnel}{proofs}
limits: {json.dumps(limits)}
log: {{access: off}}
"""
