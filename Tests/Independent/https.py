"""HTTP/1.1 over TLS, with nothing in a request but what the caller has put there."""

import http.client
import json
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

# The longest that an answer is waited for, in seconds.
PATIENCE = 20


@dataclass
class Answer:
    status: int
    fields: dict
    content: bytes

    def json(self):
        return json.loads(self.content)

    def error(self):
        """The code of a refusal, None of everything else: a service behind the gateway may answer 4xx with anything."""
        try:
            said = self.json() if self.status >= 400 else None
        except ValueError:
            return None
        return said.get("error") if isinstance(said, dict) else None

    def seconds(self):
        """The server's time when it answered, in seconds since 1970."""
        return parsedate_to_datetime(self.fields["date"]).timestamp()


class Connection:
    """A kept connection of HTTP/1.1, which is opened again when it has ended."""

    def __init__(self, host, port, context):
        self._https = http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=context)

    def send(self, method, target, fields=(), content=b""):
        try:
            # Nothing but what the caller says is sent: whatever a library adds might have to be covered.
            self._https.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in fields:
                self._https.putheader(name, value)
            self._https.endheaders(content or None)
            response = self._https.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self._https.close()
            raise
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def close(self):
        self._https.close()
