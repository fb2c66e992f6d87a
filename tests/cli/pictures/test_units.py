"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.model.texts.units import (
    chance,
    changed_by,
    count,
    duration,
    exact,
    moment,
    part_of,
    per_s,
    rate,
    share,
    shares,
    signed,
    size,
    times,
)

SIGN = "\N{MULTIPLICATION SIGN}"


def test_a_moment_is_reported_in_utc() -> None:
    assert moment(1763690000 * 10**9) == moment("1763690000000000000") == "2025-11-21 01:53:20 UTC"
    assert moment(None) == "-"


@pytest.mark.parametrize(
    ("value_ns", "printed"),
    [
        (None, "-"),
        (0, "0"),
        (999, "999 ns"),
        (999.6, "1.00 µs"),
        (1_000, "1.00 µs"),
        (8_314_000, "8.31 ms"),
        (9_996_000, "10.0 ms"),
        (83_140_000, "83.1 ms"),
        (999_600_000, "1.00 s"),
        (1_234_000_000, "1.23 s"),
        (59_994_000_000, "60.0 s"),
        (123_000_000_000, "2 min 03 s"),
        (3_599_400_000_000, "59 min 59 s"),
        (3_599_600_000_000, "1 h 00 min"),
        (86_369_000_000_000, "23 h 59 min"),
        (86_370_000_000_000, "1 d 00 h"),
        (178_191_000_000_000, "2 d 01 h"),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_that_suits_it(
    value_ns: float | None, printed: str
) -> None:
    assert duration(value_ns) == printed


def tenths_of(printed: str) -> int:
    """A printed share; one that is less than a tenth adds nothing to its column."""
    return 0 if printed == "<0.1 %" else round(10 * float(printed.removesuffix(" %")))


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1).filter(any))
def test_printed_shares_add_up_to_a_hundred_percent(parts: list[float]) -> None:
    printed = shares(parts)

    assert sum(map(tenths_of, printed)) == 1000


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1).filter(any))
def test_a_printed_share_is_off_by_less_than_a_tenth(parts: list[float]) -> None:
    printed = [tenths_of(text) / 10 for text in shares(parts)]

    wanted = [100 * part / sum(parts) for part in parts]
    assert all(abs(a - b) < 0.1 + 1e-9 for a, b in zip(printed, wanted, strict=True))


@given(
    st.lists(st.floats(min_value=0, max_value=1e12), min_size=1).filter(any),
    st.integers(0, 1000),
)
def test_printed_shares_of_a_part_add_up_to_what_is_printed_of_it(
    parts: list[float], tenths: int
) -> None:
    printed = shares(parts, f"{tenths / 10:.1f} %")

    assert sum(map(tenths_of, printed)) == tenths


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1).filter(any))
def test_only_the_share_of_nothing_is_printed_as_nothing(parts: list[float]) -> None:
    assert [text == "0.0 %" for text in shares(parts)] == [not part for part in parts]


def test_parts_of_a_little_are_little() -> None:
    assert shares([1, 9_999]) == ["<0.1 %", "100.0 %"]
    assert shares([3, 0], "<0.1 %") == ["<0.1 %", "0.0 %"]


def test_shares_of_nothing_are_unknown() -> None:
    assert shares([0.0, 0.0]) == ["-", "-"]
    assert share(None) == "-"


def test_exact_durations_show_every_nanosecond() -> None:
    assert exact(8_310_042) == "8,310,042 ns"


def test_nouns_agree_with_their_number() -> None:
    assert [count(number, "request") for number in (0, 1, 1204)] == [
        "0 requests",
        "1 request",
        "1,204 requests",
    ]


@pytest.mark.parametrize(
    ("value_ns", "printed", "with_plus"),
    [(-8_314_000, "-8.31 ms", "-8.31 ms"), (0, "0", "+0"), (12_000, "12.0 µs", "+12.0 µs")],
)
def test_a_difference_has_its_sign(value_ns: int, printed: str, with_plus: str) -> None:
    assert (signed(value_ns), signed(value_ns, "+")) == (printed, with_plus)


@pytest.mark.parametrize(
    ("p_value", "printed"),
    [(None, "-"), (0.0, "< 0.001"), (0.00099, "< 0.001"), (0.001, "0.001"), (1.0, "1.000")],
)
def test_very_small_chances_are_not_distinguished(p_value: float | None, printed: str) -> None:
    assert chance(p_value) == printed


@pytest.mark.parametrize(
    ("value_bytes", "printed"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.00 kB"),
        (999_600, "1.00 MB"),
        (20e9, "20.0 GB"),
        (2.5e15, "2,500 TB"),
    ],
)
def test_a_size_has_three_digits_and_the_unit_that_suits_it(
    value_bytes: float, printed: str
) -> None:
    assert size(value_bytes) == printed


@given(st.floats(min_value=-10, max_value=10))
def test_a_change_is_never_minus_nothing(ratio: float) -> None:
    assert changed_by(ratio) != "-0.0 %"


def test_a_change_says_its_direction() -> None:
    assert (changed_by(0.032), changed_by(-0.12), changed_by(-0.0001)) == (
        *("+3.2 %", "-12.0 %", "+0.0 %"),
    )


def test_a_change_of_twice_or_more_is_so_many_times() -> None:
    found = [changed_by(0.999), changed_by(1.0), changed_by(28.3)]
    assert found == ["+99.9 %", f"{SIGN}2.00", f"{SIGN}29.3"]


def test_times_are_whole_or_in_three_digits() -> None:
    said = [times(value).removesuffix(SIGN) for value in (6.0, 14.4, 4.7, 0.0134, 0)]
    assert said == ["6", "14.4", "4.70", "0.01", "0"]


def test_a_rate_that_is_hardly_any_is_not_none() -> None:
    assert [rate(3, 3600 * 10**9), rate(0, 10**9), per_s(2.5), per_s(0)] == [
        "<0.01", "0", "2.50/s", "0/s",
    ]  # fmt: skip


def test_a_part_of_a_sum_with_negative_parts_is_never_more_than_all() -> None:
    assert [part_of(ratio) for ratio in (0.545, 1.001, 1.2)] == ["54.5 %", "100.0 %", "100.0 %"]
