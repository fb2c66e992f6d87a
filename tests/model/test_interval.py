"""Work interleaved with a span travels packed in one attribute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.model import Interval, Stage, pack_intervals, unpack_intervals
from tests.support.builders.spans.strategies import LAST_NS, intervals


@given(st.integers(0, 2**63), st.data())
def test_packed_intervals_come_back_as_they_were(start_ns: int, data: st.DataObject) -> None:
    sent = data.draw(intervals(start_ns, start_ns + LAST_NS))

    packed = pack_intervals(sent, start_ns)

    assert set(unpack_intervals(packed, start_ns)) == set(sent)


@given(intervals(), st.data())
def test_the_order_in_which_they_are_packed_loses_none(
    sent: tuple[Interval, ...], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(sent))

    packed = pack_intervals(shuffled, 0)

    assert set(unpack_intervals(packed, 0)) == set(sent)


@given(intervals())
def test_unpacked_intervals_are_in_order_of_time(sent: tuple[Interval, ...]) -> None:
    found = unpack_intervals(pack_intervals(sent, 0), 0)

    starts_ns = [interval.start_ns for interval in found]
    assert starts_ns == sorted(starts_ns)


def test_the_format_is_the_documented_one() -> None:
    found = unpack_intervals("respond:1200+340,50+30;detokenize:400+25", 10_000)

    assert found == (
        Interval(stage=Stage.DETOKENIZE, start_ns=10_400, end_ns=10_425),
        Interval(stage=Stage.RESPOND, start_ns=11_200, end_ns=11_540),
        Interval(stage=Stage.RESPOND, start_ns=11_590, end_ns=11_620),
    )


def test_no_intervals_are_packed_as_nothing() -> None:
    assert pack_intervals((), 0) == ""
    assert unpack_intervals("", 0) == ()


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "packed"),
    [
        pytest.param(5, 20, "respond:0+10", id="it starts before the span"),
        pytest.param(5, 10, "", id="it ends before the span"),
        pytest.param(15, 15, "", id="it is empty"),
    ],
)
def test_an_interval_loses_what_sticks_out_at_the_start(
    start_ns: int, end_ns: int, packed: str
) -> None:
    interval = Interval(stage=Stage.RESPOND, start_ns=start_ns, end_ns=end_ns)

    assert pack_intervals([interval], 10) == packed


def test_an_interval_loses_what_its_predecessor_covers() -> None:
    packed = pack_intervals(
        [
            Interval(stage=Stage.RESPOND, start_ns=0, end_ns=10),
            Interval(stage=Stage.RESPOND, start_ns=5, end_ns=20),
        ],
        0,
    )

    assert packed == "respond:0+10,0+10"


@pytest.mark.parametrize(
    "packed",
    [
        "respond",
        "respond:",
        "respond:5",
        "respond:5+",
        "respond:+5",
        "respond:-5+5",
        "respond:5+-5",
        "respond:5+5,",
        "respond:5+5+5",
        "respond:5.0+5",
        "respond:5+²",
        "respond:5+٣",
        "nothing:5+5",
        "5+5",
    ],
)
def test_text_of_another_format_is_refused(packed: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack_intervals(packed, 0)
