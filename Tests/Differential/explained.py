"""Where we forward a request that a peer does not, and why that is not laxer."""

import re

WEBSOCKET = re.compile(rb"(?im)^Upgrade:[ \t]*websocket[ \t]*\r$")
KEY = re.compile(rb"(?m)^Sec-WebSocket-Key: [A-Za-z0-9+/]{22}==\r$")


def reason(data, row, peer):
    """- Returns: why, for one payload and one of the peers; None if there is no reason."""
    ours, theirs = row["ours"], row[peer]
    if theirs.statuses and theirs.statuses[0] >= 400 and ours.statuses and ours.statuses[0] >= 400:
        return ("both deny the first request, and know where it ends; nginx then closes the connection, we serve the next "
                "request by itself (RFC 9112 section 9.3)")
    if peer == "haproxy" and WEBSOCKET.search(data) and not KEY.search(data):
        return ("HAProxy would open a tunnel, and so demands the handshake's key (RFC 6455 section 4.2.1); we forward the "
                "request without its Upgrade, which RFC 9110 section 7.8 allows, and open none")
    return None
