"""The hook of `ssl`, with clients that are made while a request waits."""

import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from latencytrace.agent.hooks.httpx import HttpxHook
from latencytrace.agent.hooks.ssl import SslHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request

HOOKS = (HttpxHook, SslHook)


def client_of_httpx() -> None:
    httpx.Client(trust_env=False).close()


@pytest.mark.parametrize(
    "make", [client_of_httpx, ssl.create_default_context], ids=["httpx", "the standard library"]
)
def test_a_request_that_makes_a_client_waits_for_its_certificates(
    spans: Spans, make: Callable[[], object]
) -> None:
    make()  # outside of any request
    in_request(spans, make)

    assert spans.names == ["load TLS certificates", "request"]
    assert spans.stages == [Stage.NETWORK, None]


def test_certificates_that_a_call_loads_are_part_of_the_call(spans: Spans) -> None:
    class Transport(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            ssl.create_default_context()
            return httpx.Response(200, request=request)

    with httpx.Client(transport=Transport(), trust_env=False) as client:
        in_request(spans, lambda: client.get("https://model.test/"))

    assert spans.names == ["GET", "request"]


def test_what_cannot_be_loaded_is_the_programs_to_handle(spans: Spans, tmp_path: Path) -> None:
    def load() -> None:
        with pytest.raises(FileNotFoundError):
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(tmp_path / "none.pem")

    in_request(spans, load)

    assert spans.names == ["load TLS certificates", "request"]
