"""Every promise about observed routes holds over HTTP/2 too: the same tests, another connection."""

import pytest

from support import phone as phones
from support.http2_client import HTTP2Client
from test_observed_routes import *  # noqa: F401,F403

# WebSockets over HTTP/2 are opened in another way: test_websocket_http2.py. The others need no connection, or make their own.
test_a_web_socket_opens_without_a_proof_and_survives_the_check_of_its_device = None
test_a_share_of_devices_is_enforced_and_stays_the_same_after_a_start_and_with_more = None
test_a_share_has_senders_whose_keys_no_device_can_have = None
test_check_warns_of_each_route_that_is_not_enforced = None
test_no_versions_that_one_client_invents_take_the_row_of_one_in_use = None
# Names of fields are in lower case there.
test_no_client_can_claim_a_verdict = None


@pytest.fixture(autouse=True)
def over_http2(monkeypatch):
    monkeypatch.setattr(phones, "Client", HTTP2Client)
