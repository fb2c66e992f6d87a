"""Packed times are read, many at once, as one by one; or not at all."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from latencytrace.analysis.columns.packed import (
    UNREADABLE,
    Texts,
    put_apart,
    total_gaps,
    unpack_many,
)
from latencytrace.model.packed import unpack_named, unpack_token_times

NAMES = ("a", "bc", "b")
LONG = re.compile(r"[0-9]{18}")
GROUPS = st.lists(
    st.tuples(
        st.sampled_from([*NAMES, "", "c", "ü"]),
        st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3),
    ),
    max_size=3,
).map(
    lambda groups: ";".join(
        f"{name}:{','.join(f'{gap}+{length}' for gap, length in parts)}" for name, parts in groups
    )
)
PACKED = st.one_of(GROUPS, st.text("0129+,;:abcx", max_size=12))
ENTRIES = st.lists(st.from_regex(r"[0-9]{1,3}(x[0-3])?", fullmatch=True), max_size=4).map(",".join)
STREAMS = st.one_of(
    st.tuples(st.integers(0, 99), ENTRIES, ENTRIES).map(lambda one: f"{one[0]};{one[1]};{one[2]}"),
    st.tuples(st.integers(0, 99), ENTRIES).map(lambda one: f"{one[0]};{one[1]}"),
    st.text("0129x,;", max_size=12),
)


@given(st.lists(PACKED, max_size=4))
@example(["a:1+2;;bc:0+0,3+1", "", "a:1+9999999999999999999", "a", "a:", "a:1+2,"])
def test_intervals_are_read_as_one_by_one(packed: list[str]) -> None:
    texts, not_ascii = Texts.of(packed)
    odd, begins, found = unpack_many(*texts, *Texts.of(NAMES)[0])

    for number, text in enumerate(packed):
        try:
            expected = list(unpack_named(text, 0))
        except ValueError:
            expected = None
        known = expected is not None and all(name in NAMES for name, _, _ in expected)
        # A group of an unknown name without intervals cannot be: it has no parts.
        assert (odd[number] or not_ascii[number]) == (not known or bool(LONG.search(text)))
        if not odd[number] and not not_ascii[number]:
            rows = found[begins[number] : begins[number + 1]].tolist()
            assert [(NAMES[name], start, end) for start, end, name in rows] == expected


def test_intervals_beyond_what_times_reach_are_left_to_objects() -> None:
    far = ",".join(["99999999999999999+99999999999999999"] * 6)

    odd, begins, found = unpack_many(*Texts.of([f"a:{far}", "b:1+2"])[0], *Texts.of(NAMES)[0])

    assert (odd.tolist(), begins.tolist(), found.tolist()) == (
        [True, False],
        [0, 0, 1],
        [[1, 3, 2]],
    )


@given(st.lists(STREAMS, max_size=4))
@example(["5;", "5;1,2", "5;7x2;3x2", "5;7x2;3x1", "5", ";", "5;1;976x0", "5;1;977x0"])
def test_the_gaps_of_streams_add_up_as_one_by_one(packed: list[str]) -> None:
    totals = total_gaps(*Texts.of(packed)[0]).tolist()

    for text, total in zip(packed, totals, strict=True):
        try:
            expected = sum(unpack_token_times(text, 0).lengths_ns)
        except ValueError:
            expected = UNREADABLE
        assert total == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 2)), max_size=8))
def test_what_is_put_apart_covers_the_same_and_overlaps_nowhere(
    intervals: list[tuple[int, int, int]],
) -> None:
    found = np.array(intervals, np.int64).reshape(-1, 3)

    begins, left = put_apart(np.array([0, len(intervals)]), found)

    covered = {at for start, end, _ in intervals for at in range(start, end)}
    times = [at for start, end, _ in left.tolist() for at in range(start, end)]
    assert begins.tolist() == [0, len(left)]
    assert times == sorted(covered)


@pytest.mark.parametrize("value", [7, b"a:1+2", None, ("a",), "ü:1+2"])
def test_what_is_no_ascii_text_is_odd(value: str | int | bytes | tuple[str, ...] | None) -> None:
    texts, odd = Texts.of(["a:1+2", value])

    assert odd.tolist() == [False, True]
    assert texts.begins.tolist() == [0, 5, 5]
