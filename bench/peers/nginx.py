"""nginx, as a peer and as the services behind."""

from pathlib import Path

from .server import Server

BODY_BYTES = 1024


class Nginx(Server):
    name = "nginx"
    variants = ["tickets", "cache"]

    def locations(self):
        """Besides those that all servers have."""
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

    def upstreams(self):
        """Besides those that all servers have."""
        return ""

    def command(self):
        return ["nginx", "-p", self.directory, "-c", self.configuration_file, "-e", self.directory / "errors"]

    @property
    def worker(self):
        master = self.process.pid
        return int(Path(f"/proc/{master}/task/{master}/children").read_text().split()[0])

    def preamble(self):
        return (
            f"daemon off; pid {self.directory}/pid; worker_processes 1; worker_rlimit_nofile 16384;\n"
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
    location /balanced {{ proxy_pass http://balanced; }}{self.locations()}
  }}"""
            for variant in self.variants)
        upstreams = "".join(
            f"  upstream {name} {{{''.join(f' server 127.0.0.1:{port};' for port in ports)} keepalive 64;"
            " keepalive_requests 1000000000; }\n"
            for name, ports in (("bench", self.upstream_ports[:1]), ("balanced", self.upstream_ports)))
        upstreams += self.upstreams()
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


class Origin(Nginx):
    """The services behind, one on each port: answer every request with the same kilobyte from memory."""

    name = "origin"
    variants = ["first", "second"]

    def configuration(self):
        return f"""{self.preamble()}
http {{
{self.paths()}
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  server {{
    {" ".join(f"listen 127.0.0.1:{port};" for port in self.ports.values())}
    location / {{ return 200 "{"x" * BODY_BYTES}"; }}
  }}
}}
"""
