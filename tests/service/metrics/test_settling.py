"""A request is counted once it has settled."""

from dataclasses import replace

import numpy as np
import pytest

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.model import Request
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.settling import Settled, Settling
from tests.support.builders.made_requests import made_request
from tests.support.builders.made_tables import made_table
from tests.support.fakes.contracts import FakeClock
from tests.support.tables.ledger_tables import tables_of

SETTLE_S = 10


class Rig:
    """The settling of requests, with its clock."""

    def __init__(self, max_pending: int = 100) -> None:
        self.clock = FakeClock()
        self.settling = Settling(self.clock, SETTLE_S * 10**9, max_pending)

    def settled_after_s(self, seconds: float) -> list[str]:
        """The traces that have settled once time has passed."""
        self.clock.move_s(seconds)
        return [request.trace_id for request in self.settling.settled().each()]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def of(trace_id: str, revision: int = 1) -> Request:
    return made_request(trace_id=trace_id, revision=revision)


def key_of(request: Request) -> tuple[str, str]:
    return request.trace_id, request.span_id


def test_a_request_settles_once_after_nothing_came_for_a_while(rig: Rig) -> None:
    rig.settling.add(tables_of([of("a")]), 1)

    assert rig.settled_after_s(SETTLE_S - 1) == []
    assert rig.settled_after_s(1) == ["a"]
    assert rig.settled_after_s(1000) == []


def test_every_revision_puts_its_request_off_and_the_last_one_is_counted(rig: Rig) -> None:
    rig.settling.add(tables_of([of("a"), of("b")]), 1)
    rig.clock.move_s(SETTLE_S - 1)
    rig.settling.add(tables_of([of("a", revision=2)]), 2, [key_of(of("a"))])

    assert rig.settled_after_s(1) == ["b"]
    rig.clock.move_s(SETTLE_S)
    assert [one.revision for one in rig.settling.settled().each()] == [2]


def test_a_request_that_is_none_any_more_is_not_counted(rig: Rig) -> None:
    rig.settling.add(tables_of([of("a"), of("b")]), 1)
    rig.settling.withdraw([("a", of("a").span_id), ("unknown", "")])

    assert rig.settled_after_s(SETTLE_S) == ["b"]


def test_a_request_is_counted_once_it_does_not_wait_any_more(rig: Rig) -> None:
    rig.settling.add(tables_of([of("a")]), 1)
    before = rig.settling.counted(map(key_of, [of("a"), of("b")]))
    rig.settled_after_s(SETTLE_S)

    assert {trace_id for trace_id, _ in before} == {"b"}
    assert {trace_id for trace_id, _ in rig.settling.counted(map(key_of, [of("a")]))} == {"a"}


def test_a_request_that_was_withdrawn_before_it_was_counted_may_still_be_counted(
    rig: Rig,
) -> None:
    rig.settling.add(tables_of([of("a")]), 1)
    rig.settling.withdraw([("a", of("a").span_id)])

    assert rig.settling.counted(map(key_of, [of("a", revision=3)])) == set()


def test_it_says_up_to_which_writing_all_are_counted(rig: Rig) -> None:
    rig.settling.add(tables_of([of("a"), of("b")]), 1)
    rig.clock.move_s(5)
    rig.settling.add(tables_of([of("c")]), 2)
    rig.clock.move_s(1)
    rig.settling.add([], 3)
    nothing = rig.settling.settled()
    rig.clock.move_s(4)
    first = rig.settling.settled()
    rig.clock.move_s(5)
    rest = rig.settling.settled()

    assert (nothing.until_ns, first.until_ns, rest.until_ns) == (None, 1, 3)
    assert rig.settling.settled().until_ns is None


def test_too_many_settle_early_and_none_is_left_out() -> None:
    rig = Rig(max_pending=2)
    for written_ns, trace_id in enumerate("abcd", start=1):
        rig.settling.add(tables_of([of(trace_id)]), written_ns)

    assert rig.settled_after_s(0) == ["a", "b"]
    assert rig.settled_after_s(SETTLE_S) == ["c", "d"]


def table_of(*trace_ids: str) -> LedgerTable:
    """A table of a request for each of these traces."""
    return replace(made_table(1).taken(np.arange(len(trace_ids))), trace_ids=trace_ids)


def keys_of(table: LedgerTable) -> list[tuple[str, str]]:
    return table.keys


def test_a_table_settles_as_a_whole(rig: Rig) -> None:
    rig.settling.add([*tables_of([of("a")]), table_of("b", "c")], 1)

    assert rig.settled_after_s(SETTLE_S - 1) == []
    rig.clock.move_s(1)
    assert [one.trace_id for one in rig.settling.settled().each()] == ["a", "b", "c"]


def test_a_request_of_a_table_is_put_off_by_its_revision(rig: Rig) -> None:
    table = table_of("a", "b", "c")
    revised = replace(requests_of(table)[1], revision=2)
    rig.settling.add([table], 1)
    rig.clock.move_s(SETTLE_S - 1)

    assert rig.settling.counted([key_of(revised)]) == set()
    rig.settling.add(tables_of([revised]), 2, [key_of(revised)])
    rig.clock.move_s(1)
    assert [one.trace_id for one in rig.settling.settled().each()] == ["a", "c"]
    rig.clock.move_s(SETTLE_S)
    assert [one.revision for one in rig.settling.settled().each()] == [2]
    assert rig.settling.counted([key_of(revised)]) == {keys_of(table)[1]}


def test_a_request_of_a_table_that_is_none_any_more_is_not_counted(rig: Rig) -> None:
    table = table_of("a", "b")
    rig.settling.add([table], 1)
    rig.settling.withdraw(keys_of(table)[:1])
    rig.settling.withdraw(keys_of(table)[:1])

    assert rig.settling.counted(keys_of(table)) == set()
    rig.clock.move_s(SETTLE_S)
    assert [one.trace_id for one in rig.settling.settled().each()] == ["b"]


def test_what_is_withdrawn_to_the_last_lets_all_be_counted(rig: Rig) -> None:
    table = table_of("a")
    rig.settling.add([table], 5)
    rig.settling.withdraw(keys_of(table))

    assert rig.settling.settled() == Settled(tables=[], until_ns=5)


def test_too_many_in_tables_settle_early() -> None:
    rig = Rig(max_pending=3)
    rig.settling.add([table_of("a", "b")], 1)
    rig.settling.add([table_of("c", "d")], 2)

    assert [one.trace_id for one in rig.settling.settled().each()] == ["a", "b"]


def test_no_object_is_made_of_requests_that_nobody_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[LedgerTable] = []

    def note(table: LedgerTable) -> list[Request]:
        made.append(table)
        return requests_of(table)

    monkeypatch.setattr(LedgerTable, "requests", note)
    tables = [table_of("a"), table_of("b")]

    each = Settled(tables=tables, until_ns=1).each()
    before = list(made)

    assert [one.trace_id for one in each] == ["a", "b"]
    assert (before, made) == ([], tables)
