"""A policy's decision point: what it is asked, and what becomes of a request by its answer."""

import json

import pytest

from support.client import Client, get
from support.decision_points import AuthZEN, EVALUATION

ROUTE = {"name": "records", "host": "localhost", "path": "/", "require": "request-proof", "policy": "records"}


def settings(point, **more):
    return {
        "routes": [ROUTE], "policies": {"records": {"pdp": "pdp"}},
        "decision_points": {"pdp": {"kind": "authzen", "url": point.url, "path": EVALUATION, **more}}}


def test_an_allowed_request_is_forwarded_and_a_denied_one_is_not(start_attested):
    answer = [True]
    point = AuthZEN(lambda document: answer[0])
    attested = start_attested(**settings(point))
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request()).status == 200
        answer[0] = (False, {"reason_user": "not on a Sunday", "reason_admin": "rule 7"})
        with attested.nothing_forwarded():
            response = client.exchange(attested.phone.request())
        assert response.status == 403
        body = json.loads(response.content)
        assert body["error"] == "policy_denied" and body["error_description"].endswith(" not on a Sunday"), body
    print(point.documents)
    point.stop()
