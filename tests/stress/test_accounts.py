"""The count at the end finds each way in which a request can be wrong."""

from dataclasses import fields, replace

from tests.stress.accounts import Comparison, Row, compared
from tests.stress.workload import SentRequest

SENT = [
    SentRequest(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        service="gateway",
        outermost=True,
        duration_ns=100,
        ledger={"retrieve": 60, "unattributed": 40},
    )
    for number in range(1, 5)
]
RIGHT = [Row(place=one.place, outermost=True, duration_ns=100, ledger=one.ledger) for one in SENT]
FIRST = {SENT[0].place}


def wrong(comparison: Comparison) -> dict[str, frozenset[tuple[str, str]]]:
    """Whatever is not as it must be."""
    found = {field.name: getattr(comparison, field.name) for field in fields(comparison)}
    return {name: places for name, places in found.items() if places}


def test_right_ledgers_are_found_right() -> None:
    assert wrong(compared(SENT, SENT, RIGHT)) == {}


def test_a_request_without_a_ledger_is_missing() -> None:
    assert wrong(compared(SENT, SENT, RIGHT[1:])) == {"missing": FIRST}


def test_a_request_with_two_rows_is_there_twice() -> None:
    assert wrong(compared(SENT, SENT, [*RIGHT, RIGHT[0]])) == {"duplicated": FIRST}


def test_time_in_another_stage_is_found() -> None:
    rows = [replace(RIGHT[0], ledger={"unattributed": 100}), *RIGHT[1:]]

    assert wrong(compared(SENT, SENT, rows)) == {"incomplete": FIRST}


def test_a_nanosecond_too_few_is_found() -> None:
    ledger = {"retrieve": 60, "unattributed": 39}
    rows = [replace(RIGHT[0], duration_ns=99, ledger=ledger), *RIGHT[1:]]

    assert wrong(compared(SENT, SENT, rows)) == {"incomplete": FIRST, "wrong_duration": FIRST}


def test_stages_that_do_not_add_up_are_found() -> None:
    rows = [replace(RIGHT[0], ledger={"retrieve": 60}), *RIGHT[1:]]

    assert wrong(compared(SENT, SENT, rows)) == {"incomplete": FIRST, "unbalanced": FIRST}


def test_an_inner_request_taken_for_the_outermost_is_found() -> None:
    sent = [replace(SENT[0], outermost=False), *SENT[1:]]

    assert wrong(compared(sent, sent, RIGHT)) == {"misplaced": FIRST}


def test_a_request_that_nobody_sent_is_found() -> None:
    stranger = replace(RIGHT[0], place=("f" * 32, "f" * 16))

    assert wrong(compared(SENT, SENT, [*RIGHT, stranger])) == {"unknown": {stranger.place}}


def test_a_request_that_was_not_acknowledged_may_be_there_or_not() -> None:
    assert wrong(compared(SENT[1:], SENT, RIGHT)) == {}
    assert wrong(compared(SENT[1:], SENT, RIGHT[1:])) == {}
