"""The receiver in a notebook's process: it takes traces, and refuses what is none."""

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.notebook.receiver import Receiver
from latencytrace.service.otlp.traces import MAX_BYTES, PROTOBUF
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.waiting import PATIENCE_S

Taken = list[ExportTraceServiceRequest]


@pytest.fixture
def taken() -> Taken:
    return []


@pytest.fixture
def receiver(taken: Taken) -> Iterator[Receiver]:
    receiver = Receiver(taken.append)
    yield receiver
    receiver.close()


def post(receiver: Receiver, body: bytes, path: str = "/v1/traces", **headers: str) -> int:
    """The status of an answer."""
    named = {"Content-Type": PROTOBUF, **{key.replace("_", "-"): headers[key] for key in headers}}
    connection = HTTPConnection(receiver.endpoint.removeprefix("http://"), timeout=PATIENCE_S)
    try:
        connection.request("POST", path, body, named)
        return connection.getresponse().status
    finally:
        connection.close()


def test_traces_are_taken(receiver: Receiver, taken: Taken) -> None:
    body = otlp(one_span())

    assert post(receiver, body) == 200
    assert [message.SerializeToString() for message in taken] == [body]


def test_metrics_are_answered_and_let_go(receiver: Receiver, taken: Taken) -> None:
    assert post(receiver, b"", "/v1/metrics") == 200
    assert taken == []


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"no protobuf", {}, 400),
        (b"no gzip", {"Content_Encoding": "gzip"}, 400),
        (b"{}", {"Content_Type": "text/plain"}, 415),
        (b"", {"Content_Length": str(MAX_BYTES + 1)}, 413),
        (b"", {"Content_Length": "-1"}, 413),
    ],
)
def test_what_is_none_is_refused_and_the_next_one_is_taken(
    receiver: Receiver, taken: Taken, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert post(receiver, body, **headers) == status
    assert taken == []
    assert post(receiver, otlp(one_span())) == 200
    assert len(taken) == 1
