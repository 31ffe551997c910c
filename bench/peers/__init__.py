"""The servers that are measured, and those behind them: configuration, start, stop."""

from .attestgate import AttestGate
from .envoy import Envoy
from .haproxy import HAProxy
from .nginx import BODY_BYTES, Direct, Nginx, Origin
from .server import Failed, Server, free_port, spawn

__all__ = [
    "ALL", "BODY_BYTES", "AttestGate", "Direct", "Envoy", "Failed", "HAProxy", "Nginx", "Origin", "Server", "free_port", "spawn"]

ALL = {kind.name: kind for kind in (AttestGate, Nginx, HAProxy, Envoy)}
