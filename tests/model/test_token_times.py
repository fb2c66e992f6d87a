"""The times of a stream's tokens travel packed in one attribute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.model.packed import (
    TokenTimes,
    bucket_of,
    least_of,
    middle_of,
    pack_token_times,
    unpack_token_times,
)


def test_the_format_is_the_documented_one() -> None:
    found = unpack_token_times("1200;310,5821x19,420;88x3,1x16", 10_000)

    assert found == TokenTimes(
        first_ns=11_200,
        lengths_ns=(310, 5821, 420),
        together=(0, 19, 0),
        buckets={88: 3, 89: 16},
    )


@given(
    st.integers(0, 2**63),
    st.lists(st.integers(0, 2**40), min_size=1, max_size=9),
    st.dictionaries(st.integers(0, 900), st.integers(1, 99), max_size=9),
)
def test_packed_times_come_back_as_they_were(
    first_ns: int, lengths_ns: list[int], buckets: dict[int, int]
) -> None:
    total = sum(buckets.values())
    together = (total, *(0 for _ in lengths_ns[1:]))
    sent = TokenTimes(
        first_ns=first_ns, lengths_ns=tuple(lengths_ns), together=together, buckets=buckets
    )

    assert unpack_token_times(pack_token_times(sent, 0), 0) == sent


@given(st.integers(0, 2**63))
def test_the_middle_of_a_bucket_is_near_all_that_is_in_it(length_ns: int) -> None:
    middle_ns = middle_of(bucket_of(length_ns))

    assert abs(middle_ns - length_ns) <= 0.032 * length_ns


@given(st.integers(1, 1000))
def test_the_shortest_gap_of_a_bucket_is_in_it_and_none_that_is_shorter(bucket: int) -> None:
    shortest_ns = least_of(bucket)

    assert bucket_of(shortest_ns) == bucket
    assert bucket_of(shortest_ns - 1) == bucket - 1


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_a_longer_gap_is_in_no_earlier_bucket(one_ns: int, other_ns: int) -> None:
    shorter_ns, longer_ns = sorted((one_ns, other_ns))

    assert bucket_of(shorter_ns) <= bucket_of(longer_ns)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "x;1",
        "5;-1",
        "5;1,b",
        "5;1;2x3;4",
        "5;9x3;2x2",
        "5;9;2x2",
        f"5;{'9' * 400}",
        "5;९",
    ],
)
def test_what_is_not_of_the_format_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"token times|unpack"):
        unpack_token_times(text, 0)
