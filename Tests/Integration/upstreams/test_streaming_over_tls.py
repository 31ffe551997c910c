"""What holds of long contents, of answers cut short and of connections that are kept holds over TLS to the service as well."""

import pytest

from support.services import Services
# Each of these asks for `own_upstream` and `start_gateway`, which are others here.
from test_kept_connections import (
    test_a_connection_that_the_service_closed_while_idle_is_not_used,
    test_a_repeatable_request_on_a_dead_connection_is_sent_again, test_a_request_is_sent_again_only_once,
    test_a_request_that_may_have_had_effect_is_not_sent_again,
    test_content_after_a_head_response_answers_no_other_request)
from test_streaming import (
    test_a_client_that_does_not_read_stops_its_upstream, test_a_disconnected_clients_upstream_request_is_aborted,
    test_an_aborted_request_does_not_close_its_connection_in_order,
    test_a_service_that_takes_no_content_any_more_is_upstream_timeout,
    test_an_upload_may_take_longer_than_the_service_may_take_to_answer,
    test_an_upstream_that_does_not_read_stops_its_client,
    test_content_of_any_size_arrives_whole_at_a_slow_upstream)
from test_upstream_failures import (
    behind, test_a_truncated_response_never_looks_complete,
    test_an_end_before_the_head_is_complete_is_upstream_unavailable)


@pytest.fixture(scope="session")
def services(pki):
    return Services(pki)


@pytest.fixture
def own_upstream(services):
    upstream = services.start()
    yield upstream
    upstream.close()
    assert upstream.faults == [], "the gateway forwarded what is no canonical request"


@pytest.fixture
def start_gateway(start_gateway, services):
    def start(upstreams, *arguments, **settings):
        def secured(upstream):
            upstream = upstream if isinstance(upstream, dict) else {"servers": [upstream]}
            return {**upstream, "tls": {"authorities": str(services.authority.certificate)}}
        return start_gateway({name: secured(one) for name, one in upstreams.items()}, *arguments, **settings)
    return start
