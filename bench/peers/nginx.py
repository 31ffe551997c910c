"""nginx, as a peer and as the services behind."""

from pathlib import Path

from .server import Server, free_port

BODY_BYTES = 1024


class Nginx(Server):
    name = "nginx"
    variants = ["tickets", "cache"]

    def locations(self):
        """Besides those that all servers have."""
        unix = "" if self.upstream_socket is None else """
    location /unix { proxy_pass http://unix; }"""
        # As nginx's documentation has it for WebSockets.
        return unix if self.tunnel_port is None else unix + f"""
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
        return "" if self.upstream_socket is None else (
            f"  upstream unix {{ server unix:{self.upstream_socket}; keepalive 64; keepalive_requests 1000000000; }}\n")

    def command(self):
        return ["nginx", "-p", self.directory, "-c", self.configuration_file, "-e", self.directory / "errors"]

    @property
    def worker(self):
        return self._children[0]

    @property
    def workers(self):
        return self._children

    @property
    def _children(self):
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
    }}{self.locations()}
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
    """The services behind, one on each port: answer every request with the same kilobyte from memory, but for large content."""

    name = "origin"
    variants = ["first", "second"]
    # What /large/download answers with, and the most that /large/upload takes.
    large_bytes = 64 << 20

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.direct_port = free_port()
        self.socket_path = self.directory / "http.sock"

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
    {" ".join(f"listen 127.0.0.1:{port};" for port in self.ports.values())} listen unix:{self.socket_path};
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
    charged = None

    def __init__(self, origin):
        self.ports = {"main": origin.direct_port}
        self.workers = origin.workers
