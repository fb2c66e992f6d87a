"""What receivers left out, read by hand: the same as protobuf's own classes read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from latencytrace.agent.export.transport import NOTHING, partial_success

plain = st.text(st.characters(categories=("L", "N", "P")), max_size=200)


@given(st.integers(0, (1 << 63) - 1), plain)
def test_spans_that_were_rejected_are_read(rejected: int, message: str) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = message

    assert partial_success(answer.SerializeToString()) == (rejected, message)


def test_points_that_were_rejected_are_read() -> None:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 7

    assert partial_success(answer.SerializeToString()) == (7, "")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_say_nothing(body: bytes) -> None:
    rejected, message = partial_success(body)

    assert 0 <= rejected < 1 << 63
    assert message.isprintable()


@pytest.mark.parametrize("rejected", [-1, -(1 << 63)])
def test_a_number_below_zero_says_nothing(rejected: int) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected

    assert partial_success(answer.SerializeToString()) == NOTHING


def test_a_message_is_short_and_has_no_signs_that_move_a_terminal() -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.error_message = "\x1b[31m" + "x" * 5000

    found = partial_success(answer.SerializeToString())

    assert found.message.startswith("?[31m")
    assert len(found.message) == 200
