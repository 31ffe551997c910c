"""A corpus of requests, valid and not, from another server's tests: we may be stricter than it, and say why; never laxer."""

import base64
import json
import re

import pytest

from support import intended
from support.oracle import Oracle
from support.paths import REPOSITORY

CORPUS = REPOSITORY.parent / "shared" / "corpora" / "http1-requests.json"
ENTRIES = json.loads(CORPUS.read_text())["requests"] if CORPUS.exists() else []
pytestmark = pytest.mark.skipif(not ENTRIES, reason="the corpus ../shared/corpora/http1-requests.json is not there")

# What gunicorn refuses for reasons of its own, or because it does not rewrite what it is sent.
ADMITTED_HERE = {
    **dict.fromkeys(
        ["invalid-006", "invalid-007", "invalid-008", "invalid-010", "invalid-011", "invalid-012", "invalid-017",
         "invalid-limit_header_default_01"], "gunicorn's limits on lines and fields are lower, or set lower by its test"),
    "invalid-019": "X-Forwarded-* that contradict each other are both removed",
    **dict.fromkeys(
        ["invalid-rfc9110_field_value_ctl_bel_01", "invalid-rfc9110_field_value_ctl_del_01"],
        "the corpus spells the control character with a backslash"),
}

# What gunicorn takes, some of it only with a setting of its test, and of which we forward less: our rule, and its source.
STRICTER = {
    **dict.fromkeys(
        ["valid-005", "valid-009"],
        "a target has no fragment: the grammar of RFC 9112 section 3.2, RFC 9110 section 7.1"),
    **dict.fromkeys(
        ["valid-013", "valid-rfc9112_chunked_ext_quoted_01"],
        "chunk extensions: RFC 9112 section 7.1.1 has those that are not known ignored; where they end is where readers "
        "differ, and none of our clients sends any"),
    **dict.fromkeys(
        ["valid-008", "valid-020"],
        "content of a GET in HTTP/1.0: RFC 1945 section 8.1 knows none, so that some take it for the next request"),
    "valid-014": "a quotation mark in a target is percent-encoded: RFC 3986 sections 3.3 and 3.4",
    "valid-019": "nothing is read behind HTTP/1.0 without keep-alive: RFC 9112 section 9.3",
    "valid-017": "two lines of If-Match: RFC 9110 section 5.3 has them joined, some readers take either",
    "valid-021": "nothing is read behind Connection: close: RFC 9112 section 9.6",
    "valid-024": "a target of more than 8 KiB: RFC 9110 section 4.1 recommends to support 8000 octets",
    **dict.fromkeys(
        ["valid-025", "valid-025_line", "valid-029", "valid-030", "valid-rfc9112_smuggle_gzip_chunked_01",
         "valid-rfc9112_smuggle_te_identity_chunked_01"],
        "a transfer coding other than one chunked: RFC 9112 section 6.1 lets the recipient refuse what it does not "
        "understand; identity is none since RFC 7230"),
    "valid-027": "octets beyond ASCII in a target: RFC 3986 section 2, RFC 9112 section 3.2",
    "valid-028": "white space before the colon: RFC 9112 section 5.1 demands the refusal",
    **dict.fromkeys(
        ["valid-031", "valid-031compat", "valid-031compat2"],
        "a method of nobody: RFC 9110 section 9.1 has it refused"),
    **dict.fromkeys(
        ["valid-040", "valid-040_compat", "valid-rfc9110_field_name_special_chars_01"],
        "a name with `_` or `.`: a token by RFC 9110 section 5.6.2, but RFC 3875 section 4.1.18 makes it one with `-`"),
    "valid-099": "half a request, of which gunicorn's test reads no content: RFC 9112 section 8",
    "valid-100": "empty segments: RFC 3986 section 3.3 admits them; services join or keep them",
    **dict.fromkeys(
        ["valid-compat_obs_fold", "valid-compat_obs_fold_huge"],
        "obs-fold: RFC 9112 section 5.2 lets a server refuse it"),
    **dict.fromkeys(
        ["valid-pp_01", "valid-pp_02", "valid-pp_04", "valid-pp_05"],
        "the PROXY protocol is no HTTP, and what it says of the client would be the client's word: RFC 9112 section 3"),
    **dict.fromkeys(
        ["valid-rfc9112_target_absolute_01", "valid-rfc9112_target_absolute_ipv6_01",
         "valid-rfc9112_target_absolute_userinfo_01"],
        "an absolute target of another scheme than the connection's: RFC 9110 section 7.4"),
    "valid-rfc9112_target_asterisk_options_01": "asterisk-form names no resource of a route: RFC 9112 section 3.2.4",
    **dict.fromkeys(
        ["valid-rfc9112_target_authority_connect_01", "valid-rfc9112_target_authority_ipv6_01"],
        "no tunnel at the client's word: RFC 9110 section 9.3.6"),
}


def for_localhost(data):
    """The same for a host that has a route: else hardly any would get further than that."""
    data = re.sub(rb"(?i)\A(GET https://)[^/ ]+", rb"\1localhost", data)
    changed, count = re.subn(rb"(?im)^Host:[^\r\n]*", b"Host: localhost", data)
    # Each of several requests needs one.
    request_line = rb"(\A[^\r\n]*\r\n|(?<=\r\n)[A-Z]+ [^\r\n]* HTTP/[^\r\n]*\r\n)"
    return changed if count else re.sub(request_line, rb"\1Host: localhost\r\n", data)


def wire(entry, is_changed=True):
    data = base64.b64decode(entry["request_base64"])
    return for_localhost(data) if is_changed else data


def has_less(reading, data):
    """Whether anything of the bytes is not forwarded."""
    return reading.end in ("refused", "unfinished") or any(
        status != 200 for _, status in reading.answers) or len(reading.requests) < len(re.findall(rb" HTTP/1\.[01]\r\n", data))


@pytest.fixture(scope="module")
def oracle(pki, phone, tmp_path_factory):
    made = Oracle(tmp_path_factory.mktemp("corpus"), pki, phone)
    yield made
    made.stop()


@pytest.mark.parametrize("is_changed, delivery", [
    (False, "in one write"), (True, "in one write"), (True, "byte by byte"), (True, "between two requests")],
    ids=lambda value: {False: "as it is", True: "for localhost"}.get(value, value))
def test_requests_of_the_corpus_are_forwarded_as_intended(oracle, is_changed, delivery):
    for entry in ENTRIES:
        try:
            oracle.check(wire(entry, is_changed), delivery)
        except AssertionError as failure:
            raise AssertionError(f"{entry['id']}: {failure}") from failure


def test_the_gateway_is_never_laxer_than_the_server_of_the_corpus():
    laxer = {e["id"] for e in ENTRIES if e["gunicorn"] != "accepts" and intended.read(wire(e)).requests}
    assert laxer == set(ADMITTED_HERE)


def test_each_stricter_verdict_is_explained():
    stricter = {e["id"] for e in ENTRIES if e["gunicorn"] == "accepts" and has_less(intended.read(wire(e)), wire(e))}
    assert stricter == set(STRICTER)
    assert all("RFC " in why for why in STRICTER.values())


def test_requests_that_both_accept_are_forwarded():
    served = [e["id"] for e in ENTRIES if e["gunicorn"] == "accepts" and e["id"] not in STRICTER]
    assert len(served) >= 20
    for entry in ENTRIES:
        if entry["id"] in served:
            reading = intended.read(wire(entry))
            assert reading.requests and all(status == 200 for _, status in reading.answers), entry["id"]
