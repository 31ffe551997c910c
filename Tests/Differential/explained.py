"""Where we forward a request that a peer does not, and why that is not laxer.

Each reason is for one peer, names what both did exactly, and holds only where what we forward is what `intended`, which knows
none of the three, reads in the bytes.
"""

import re

from support import intended

# The status of our denial, of a request that can be read and whose end is known, with those that nginx gives it: it calls a
# method in lower case malformed.
DENIED = {404: {404}, 405: {405, 400}, 413: {413}, 421: {421}}
WEBSOCKET = re.compile(rb"(?im)^Upgrade:[ \t]*websocket[ \t]*\r$")
METHOD = re.compile(rb"[A-Za-z]+ ")
KEY = re.compile(rb"(?m)^Sec-WebSocket-Key: [A-Za-z0-9+/]{22}==\r$")


def reason(data, row, peer):
    """- Returns: why, for one payload and one of the peers; None if there is no reason."""
    reading, ours, theirs = intended.read(data), row["ours"], row[peer]
    if theirs.forwarded or ours.has_rest or not reading.answers:
        return None
    if [(r.method, r.target, r.content) for r in ours.forwarded] != [(r.method, r.target, r.content) for r in reading.requests]:
        return None
    first, refusals = reading.answers[0][1], theirs.statuses
    if peer == "nginx" and ours.statuses[:1] == [first] and len(refusals) == 1 and refusals[0] in DENIED.get(first, ()):
        return ("both deny the first request, and know where it ends; nginx then closes the connection, we serve the next "
                "request by itself (RFC 9112 section 9.3)")
    if peer == "haproxy" and refusals[:1] == [400] and _opens_no_tunnel(data):
        if first == 200:
            return ("HAProxy would open a tunnel, and so demands the handshake's key (RFC 6455 section 4.2.1); we forward the "
                    "request without its Upgrade, which RFC 9110 section 7.8 allows, and open none")
        if first in DENIED and ours.statuses[:1] == [first]:
            return ("both deny the first request, HAProxy for the handshake's key whatever the method, and know where it ends; "
                    "HAProxy then closes the connection, we serve the next request by itself (RFC 9112 section 9.3)")
    return None


def _opens_no_tunnel(data):
    """Whether the first request, and it alone, asks for a WebSocket without the key of the handshake."""
    head = data.partition(b"\r\n\r\n")[0] + b"\r\n"
    return METHOD.match(head) and len(WEBSOCKET.findall(data)) == 1 == len(WEBSOCKET.findall(head)) and not KEY.search(head)
