"""Numbers of variable length, against protobuf's own writer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.model.varints import number_at, varint
from tests.support.over_all import over_all

UINT64 = st.integers(0, 2**64 - 1)


@given(UINT64, st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_as_it_was_written_wherever_it_stands(
    number: int, before: bytes, after: bytes
) -> None:
    written = varint(number)

    assert number_at(before + written + after, len(before)) == (number, len(before + written))


@given(st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_it_is_written_as_protobuf_does_negative_ones_too(number: int) -> None:
    assert ProtoSpan(kind=number).SerializeToString() == b"\x30" + varint(number)  # type: ignore[arg-type] # any number is read


@over_all("body", [b"", b"\x80", b"\xff\xff"])
def test_a_number_that_is_cut_off_is_none(body: bytes) -> None:
    with pytest.raises(IndexError):
        number_at(body, 0)


def test_a_number_of_more_than_ten_bytes_is_none() -> None:
    with pytest.raises(IndexError, match="a number is too long"):
        number_at(b"\x80" * 10 + b"\x01", 0)
