"""HAProxy."""

from .server import Server


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
        unix, socket = "", ""
        if self.upstream_socket is not None:
            unix = "  use_backend unix if { path_beg /unix }\n"
            socket = f"backend unix\n  server unix unix@{self.upstream_socket}\n"
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
{binds}{tunnel}{unix}  use_backend balanced if {{ path_beg /balanced }}
  default_backend bench
backend bench
  server bench 127.0.0.1:{self.upstream_ports[0]}
backend balanced
  balance roundrobin
{servers}{tunnels}{socket}"""
