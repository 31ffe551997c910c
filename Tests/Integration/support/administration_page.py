"""What the page sends to the administration, by itself or with something left out."""

import http.client
import json

from support.paths import PATIENCE
from support.ports import uncommon_port

TOKEN = "t0ken-" * 8


def serve_page(tmp_path, **listener):
    """Settings of a gateway that serves the page. - Returns: the section, and its port."""
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    port = uncommon_port()
    if not listener:
        listener = {"token_file": str(token)}
    return {"socket": str(tmp_path / "admin.sock"), "listeners": [{"address": f"127.0.0.1:{port}", **listener}]}, port


class Page:
    """A session, as the page has it."""

    def __init__(self, port, context=None, host=None):
        self.port, self.context = port, context
        self.host = host or f"127.0.0.1:{port}"
        self.origin = f"{'https' if context else 'http'}://{self.host}"
        self.cookie = self.key = None

    def ask(self, method, path, content=None, **changes):
        """`changes`: header fields, by their names with _ for -; None to leave one out.

        - Returns: status, the JSON of the answer or its text, and its fields."""
        kind = http.client.HTTPSConnection if self.context else http.client.HTTPConnection
        connection = kind("127.0.0.1", self.port, timeout=PATIENCE, **({"context": self.context} if self.context else {}))
        fields = {"Host": self.host, "Sec-Fetch-Site": "same-origin"}
        # Browsers leave it out where a page reads from where it came.
        if method != "GET":
            fields["Origin"] = self.origin
        if self.cookie:
            fields["Cookie"] = self.cookie
        if self.key:
            fields["Attestgate-Page"] = self.key
        if content is not None:
            fields["Content-Type"], content = "application/json", json.dumps(content)
        fields.update({name.replace("_", "-").title(): value for name, value in changes.items()})
        try:
            connection.request(
                method, path, content, {name: value for name, value in fields.items() if value is not None})
            response = connection.getresponse()
            text = response.read().decode()
            isJSON = response.getheader("content-type") == "application/json"
            return response.status, json.loads(text) if isJSON else text, response.headers
        finally:
            connection.close()

    def sign_in(self, token=TOKEN, **changes):
        status, answer, fields = self.ask(
            "POST", "/session", {} if token is None else {"token": token}, **{"attestgate_page": "sign-in", **changes})
        if status == 200:
            self.cookie, self.key = fields["set-cookie"].split(";")[0], answer["key"]
        return status, answer.get("error"), fields

    def code(self, *arguments, **changes):
        """- Returns: the status, and the code of the refusal."""
        status, answer, _ = self.ask(*arguments, **changes)
        return status, answer.get("error") if isinstance(answer, dict) else None
