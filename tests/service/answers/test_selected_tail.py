"""Requests that were selected, read from a store beside the usual ones of their cohort."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from latencytrace.analysis.tail import groups
from latencytrace.model import Request, Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.service.answers import tail
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.web.queries import TailQuery
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of

MS: Final = 1_000_000
SECOND_NS: Final = 1000 * MS
COUNT: Final = 600
BUMP: Final = range(310, 322)
NOW_NS: Final = START_NS + COUNT * SECOND_NS


def traffic() -> list[Request]:
    """One request a second; those of a short time wait for `retrieve`, a fifth always decodes."""
    found = []
    for number in range(COUNT):
        stages = {Stage.DECODE: (70 + number * 37 % 60) * MS, Stage.RETRIEVE: 5 * MS}
        instance = "pod-1"
        if number in BUMP:
            stages[Stage.RETRIEVE] += (500 + number) * MS
            instance = "pod-9"
        elif number % 5 == 0:
            stages[Stage.DECODE] += 2 * SECOND_NS
        made = made_request(
            stages=stages,
            start_ns=START_NS + number * SECOND_NS,
            trace_id=f"{number + 1:032x}",
            instance=instance,
            attributes=(("tenant", "late" if number in BUMP else f"t{number % 3}"),),
        )
        found.append(made)
    return found


def asked(requests: Sequence[Request], **named: str) -> TailDocument:
    """The answer about those of the short time that took so long."""
    seconds = {"selected_since": BUMP.start, "selected_until": BUMP.stop}
    back = {name: f"{COUNT - second}s" for name, second in seconds.items()}
    query = TailQuery.model_validate({"selected": "400ms..5s", **back, **named})
    cohort = query.cohort(NOW_NS)
    selection = query.selection(cohort, NOW_NS)
    assert selection is not None
    return tail.tail_of_selected(store_of(*requests), cohort, selection)


def test_a_selection_is_read_whole_where_many_others_take_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, most in (("MOST_TAIL", 12), ("MOST_REFERENCE", 80), ("MOST_OTHERS", 40)):
        monkeypatch.setattr(groups, name, most)
    monkeypatch.setattr(tail, "MOST_TAIL", 12, raising=False)
    found = asked(traffic())

    assert (found["tail_requests"], found["needed_requests"]) == (len(BUMP), None)
    assert found["stages"][0]["stage"] == Stage.RETRIEVE
    assert found["cause"] is not None
    apart = {(one["key"], one["value"]): one["tail_share_ratio"] for one in found["attributes"]}
    assert apart == {("instance", "pod-9"): 1.0, ("tenant", "late"): 1.0}
    assert {int(trace_id, 16) - 1 for trace_id in found["examples"]} <= set(BUMP)


def test_a_release_before_all_of_the_selection_is_not_its_cause() -> None:
    released = [
        replace(one, version="1" if number < BUMP.start - 50 else "2")
        for number, one in enumerate(traffic())
    ]
    since = f"{COUNT - BUMP.start + 50}s"
    found = asked(released, selected="400ms..1500ms", selected_since=since, selected_until="0s")

    assert found["cause"] is not None
    assert (found["cause"]["stage"], found["cause"]["key"]) == (Stage.RETRIEVE, "instance")
    assert {one["key"] for one in found["attributes"]} == {"instance", "tenant"}
    assert found["requests"] == COUNT - BUMP.start + 50  # those of the same time


def test_what_the_cohort_leaves_out_is_not_selected() -> None:
    found = asked(traffic(), duration="..900ms", selected="815ms..5s")

    assert found["tail_requests"] == sum(
        815 * MS <= one.duration_ns <= 900 * MS for one in traffic()
    )
    assert 0 < found["tail_requests"] < len(BUMP)


@pytest.mark.parametrize(
    "named",
    [
        {"duration": "..300ms"},
        {"until": f"{COUNT - BUMP.start}s"},
        {"selected_since": "1s", "selected_until": "2s"},
    ],
    ids=["other durations", "an earlier time", "no such request"],
)
def test_nothing_is_selected_of_what_the_cohort_leaves_out(named: dict[str, str]) -> None:
    found = asked(traffic(), **named)

    assert found["requests"] > 0
    assert (found["tail_requests"], found["excess_ns"], found["cause"]) == (0, None, None)


def test_requests_without_stages_are_not_counted_as_selected() -> None:
    reduced = [
        replace(one, detail=TraceDetail.CONTROL) if number in BUMP[:3] else one
        for number, one in enumerate(traffic())
    ]
    found = asked(reduced)

    assert (found["requests"], found["tail_requests"]) == (COUNT - 3, len(BUMP) - 3)
