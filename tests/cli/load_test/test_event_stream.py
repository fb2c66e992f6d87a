"""Server-sent events, however the network cut them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.cli.load_test.answer import (
    MOST_EVENT_BYTES,
    Event,
    EventStream,
    EventTooLongError,
)

LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1).map(
    str.encode
)
EVENTS = st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=5)


def read(*parts: bytes) -> list[Event]:
    stream = EventStream()
    return [event for part in parts for event in stream.feed(part)] + stream.end()


def data(*parts: bytes) -> list[bytes]:
    return [event.data for event in read(*parts)]


@given(EVENTS, LINE_ENDS, st.data())
def test_events_come_out_whole_wherever_the_bytes_were_cut(
    events: list[list[bytes]], line_end: bytes, chance: st.DataObject
) -> None:
    written = b"".join(
        b"".join(b"data: " + line + line_end for line in lines) + line_end for lines in events
    )
    cuts = sorted(chance.draw(st.lists(st.integers(0, len(written)), max_size=8)))
    bounds = [0, *cuts, len(written)]

    found = data(*(written[start:end] for start, end in pairwise(bounds)))

    assert found == [b"\n".join(lines) for lines in events]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_mean_the_same_in_one_piece_and_in_two(received: bytes, cut: int) -> None:
    assert read(received) == read(received[:cut], received[cut:])


def test_an_empty_piece_between_a_cr_and_its_lf_ends_no_event() -> None:
    assert data(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [b"a\nb"]


def test_every_byte_by_itself_is_the_same_stream() -> None:
    written = b"\xef\xbb\xbf: hello\r\nevent: token\r\ndata: a\r\ndata:b\r\n\r\ndata: c\n\n"

    found = read(*(written[at : at + 1] for at in range(len(written))))

    assert found == [Event(b"token", b"a\nb"), Event(b"", b"c")]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(b": ping\n\n: ping\n\n", [], id="comments are nothing"),
        pytest.param(b"id: 7\nretry: 10\n\n", [], id="events without data are nothing"),
        pytest.param(b"data:\n\n", [], id="nor are those with empty data"),
        pytest.param(b"data:  two\n\n", [b" two"], id="only one space is taken off"),
        pytest.param(b"data: a: b\n\n", [b"a: b"], id="colons belong to the data"),
        pytest.param(b"data: last", [b"last"], id="the end of the stream ends an event"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR alone ends a line"),
    ],
)
def test_the_standards_fine_print(written: bytes, expected: list[bytes]) -> None:
    assert data(written) == expected


def test_an_endless_event_is_an_error_rather_than_all_the_memory() -> None:
    stream = EventStream()

    with pytest.raises(EventTooLongError):
        stream.feed(b"data: " + b"x" * MOST_EVENT_BYTES)
