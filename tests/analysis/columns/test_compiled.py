"""The array functions in C refuse what they cannot work with, and put many in order as few."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.columns.compiled.core import bind, core, needed
from latencytrace.analysis.columns.critical_paths import win
from latencytrace.analysis.columns.packed import put_apart
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.model import Span, SpanKind, Stage, semconv
from tests.support.builders.spans.numbered import TRACE_ID, root, span
from tests.support.builders.spans.span_columns import SpanColumns, critical_paths
from tests.support.simulation.by_columns import ByColumns, differences

FUNCTIONS = [
    "win", "descend", "gather", "link_spans", "lay_out_trees", "lay_out_intervals", "unpack_many",
    "put_apart", "total_gaps", "add_pieces", "read_reporters", "tell_attributes", "fill_pauses",
]  # fmt: skip
NUMBERS = np.zeros(1, np.int64)
REFUSED = {
    "of smaller numbers": np.zeros(1, np.int32),
    "of flags": np.zeros(1, np.bool_),
    "no array": [0],
    "None": None,
}


def assert_alike(*spans: Span) -> None:
    """Hold both array paths against objects."""
    traces = {TRACE_ID: spans}
    found, others = ByColumns()(traces)
    built = build_traces(spans)
    assert (others, differences(found, traces)) == ([], [])
    assert critical_paths(SpanColumns.of(built)) == [critical_path(trace) for trace in built]


def times(count: int, ways: int) -> list[tuple[int, int]]:
    """Starts and ends, out of order; of each many."""
    return [(one * 7_919 % ways, ways + one * 104_729 % ways) for one in range(count)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_refuses_to_work_before_its_numbers_are_there(name: str) -> None:
    tried = f"""
from latencytrace.analysis.columns.compiled.core import core
try:
    core.{name}()
except RuntimeError as error:
    print(error)
"""

    ran = subprocess.run(
        [sys.executable, "-c", tried], capture_output=True, text=True, check=True, timeout=50
    )

    assert "was not bound" in ran.stdout


def test_a_number_that_nothing_needs_is_refused_with_all_beside_it() -> None:
    with pytest.raises(KeyError, match="DIVIDED"):
        bind({"DIVIDE": 5, "DIVIDED": -1})

    assert win(np.array([0, 1]), NUMBERS, NUMBERS + 1, NUMBERS)[0].tolist() == [[0, 0, 1, 0]]


@pytest.mark.parametrize("numbers", [{"DIVIDE": "-1"}, {7: 7}, [1]], ids=repr)
def test_what_is_no_number_by_its_name_is_refused(numbers: object) -> None:
    with pytest.raises(TypeError):
        needed().bind(numbers)


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError):
        needed().bind({"DIVIDE": 1 << 63})


@pytest.mark.parametrize("array", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_kind_of_array_is_refused(name: str, array: object) -> None:
    number = FUNCTIONS.index(name)
    counts = (6, 10, 3, 18, 18, 14, 7, 4, 3, 8, 17, 13, 16)

    with pytest.raises(TypeError):
        getattr(core, name)(*[array] * counts[number])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_number_of_arrays_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="arguments are taken"):
        getattr(core, name)(NUMBERS)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="not as long"):
        win(np.array([0, 1]), NUMBERS, np.zeros(2, np.int64), NUMBERS)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("gather", (5, 3, 50)),  # parts are of four numbers
        ("put_apart", (0, 0, 0, 0)),  # where the first begins is always there
        ("add_pieces", (1, 0, 0, 1, 1, 1, 0, 1)),  # a span says more than one number
    ],
)
def test_an_array_of_another_length_is_refused(name: str, counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not as long"):
        getattr(core, name)(*(np.zeros(count, np.int64) for count in counts))


def test_an_array_with_holes_is_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        win(np.array([0, 1, 1])[::2], NUMBERS, NUMBERS, NUMBERS)


def test_an_array_that_may_not_be_written_to_is_refused() -> None:
    fixed = np.zeros((2, 4), np.int64)
    fixed.flags.writeable = False

    with pytest.raises(ValueError, match="read-only"):
        needed().win(np.array([0, 1]), NUMBERS, NUMBERS, NUMBERS, fixed, np.zeros(2, np.int64))


@pytest.mark.parametrize("count", [31, 32, 33, 64, 65, 100, 1_000, 5_000])
@pytest.mark.parametrize("ways", [1, 7, 4_000])
def test_children_of_equal_times_give_the_same(count: int, ways: int) -> None:
    below = [span(number, *one) for number, one in enumerate(times(count, ways), 2)]

    assert_alike(root(3 * ways), *reversed(below))


def test_children_that_stick_out_at_both_ends_give_the_same() -> None:
    parent = span(2, 100, 200)
    below = [span(number, 7 * number % 300, 300, 2) for number in range(3, 500)]

    assert_alike(root(400), parent, *below)


def test_children_in_order_or_the_other_way_round_give_the_same() -> None:
    forth = [span(number, number, number + 5) for number in range(3, 300)]
    back = [span(number, 1_000 - number, 2_000 - number) for number in range(301, 700)]

    assert_alike(root(3_000), *forth, *back)


def test_attributes_of_many_spans_come_in_order_of_start() -> None:
    below = [
        span(number, 900 - number % 7, 1_000, attributes={"app.batch": number, "app.of": "x"})
        for number in range(2, 90)
    ]

    assert_alike(root(1_000), *below)


def test_many_intervals_of_one_span_give_the_same() -> None:
    respond = ",".join(["3+5"] * 200)
    prefill = ",".join(["2+3"] * 200)
    intervals = {semconv.INTERVALS: f"respond:{respond};prefill:{prefill};decode:{respond}"}

    assert_alike(root(2_000, attributes=intervals), span(2, 10, 1_500, attributes=intervals))


def test_many_messages_below_one_span_give_the_same() -> None:
    sent = [
        span(number, *one, kind=SpanKind.PRODUCER) for number, one in enumerate(times(200, 50), 2)
    ]

    assert_alike(root(1_000), *sent, span(900, 3, 700, attributes={semconv.STAGE: "decode"}))


def test_many_pauses_of_one_span_give_the_same() -> None:
    lag, collection = ",".join(["7+3"] * 150), ",".join(["11+2"] * 150)
    gaps = {semconv.RUNTIME_GAPS: f"event_loop_lag:{lag};garbage_collection:{collection}"}

    assert_alike(
        root(2_500, attributes=gaps), span(2, 100, 160, attributes={semconv.STAGE: "embed"})
    )


@pytest.mark.parametrize("count", [32, 33, 400])
def test_many_intervals_are_put_apart_as_few_are(count: int) -> None:
    many = [(one * 37 % 101, one * 37 % 101 + one % 9, one % 3) for one in range(count)]

    begins, left = put_apart(np.array([0, count]), np.array(many, np.int64))

    assert begins.tolist() == [0, len(left)]
    assert left.tolist() == apart(many)


def apart(intervals: list[tuple[int, int, int]]) -> list[list[int]]:
    kept: list[list[int]] = []
    before_ns = 0
    for start_ns, end_ns, name in sorted(intervals):
        since_ns = max(start_ns, before_ns)
        if since_ns < end_ns:
            kept.append([since_ns, end_ns, name])
            before_ns = end_ns
    return kept


def test_of_intervals_that_run_together_the_one_that_ends_last_wins_and_then_the_later() -> None:
    embed, decode = 1, 2
    starts, ends, stages = np.array(
        [[0, 0, 2, 4, 4, 9], [9, 9, 8, 9, 9, 9], [decode, embed, embed, decode, embed, embed]],
        np.int64,
    )

    winners, won = win(np.array([0, 6]), starts, ends, stages)

    expected: NDArray[np.int64] = np.array([[0, 0, 2, 1], [0, 2, 4, 1], [0, 4, 9, 1]])
    assert winners.tolist() == expected.tolist()
    assert won.tolist() == [0, 3]


def test_of_intervals_that_are_equal_one_wins() -> None:
    starts, ends, stages = np.array([[0] * 5, [9] * 5, [1] * 5], np.int64)

    winners, won = win(np.array([0, 5]), starts, ends, stages)

    assert (winners.tolist(), won.tolist()) == ([[0, 0, 9, 1]], [0, 1])


def test_many_intervals_that_run_together_win_as_objects_say() -> None:
    stages = [Stage.PREFILL, Stage.DECODE, Stage.RESPOND]
    told = ";".join(
        f"{stages[one % 3].value}:{one * 31 % 97}+{one * 53 % 89}" for one in range(300)
    )

    assert_alike(root(300, attributes={semconv.INTERVALS: told}))
