"""The shortest conf file, for commands that need no gateway."""

CONF = """\
listeners:
  - address: 127.0.0.1:8443
    tls:
      certificate: {pki}/server.pem
      key: {pki}/server.key
    clients:
      authorities: [{pki}/gms-ca.pem]
upstreams:
  records:
    servers: [127.0.0.1:9000]
routes:
  - name: records
    host: localhost
    path: /records
    require: certificate
    upstream: records
"""
