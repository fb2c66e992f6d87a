"""Requests that were selected against the usual ones of their cohort."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latencytrace.analysis.tail.groups import Selection, Split
from latencytrace.analysis.tail.tail import tail_of_selection
from latencytrace.model import Request, Stage
from latencytrace.model.cohorts.breakdown import CauseKind, Tail
from latencytrace.model.cohorts.request_columns import Durations, RequestColumns
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.simulation.tails import durations_of, ends

MS = 1_000_000
SECOND_NS = 1000 * MS
COUNT = 600


def served(number: int, stages: dict[Stage, int], instance: str | None) -> Request:
    """The request of this number, one a second."""
    start_ns = START_NS + number * SECOND_NS
    trace_id = f"{number + 1:032x}"
    return made_request(stages=stages, start_ns=start_ns, trace_id=trace_id, instance=instance)


def traffic(bump: range, instance: str | None = None) -> list[Request]:
    """Requests of 75 to 135 ms; those of a short time wait half a second for `retrieve`.

    Every fiftieth decodes for so long, at any time.
    """
    lengths_ns = np.random.default_rng(1).permutation(np.linspace(70, 130, COUNT) * MS)
    found = []
    for number, length_ns in enumerate(lengths_ns.astype(int).tolist()):
        stages = {Stage.DECODE: length_ns, Stage.RETRIEVE: 5 * MS}
        if number in bump:
            stages[Stage.RETRIEVE] += 500 * MS + number * MS
        elif number % 50 == 7:
            stages[Stage.DECODE] += 600 * MS
        found.append(served(number, stages, instance if number in bump else None))
    return found


def selected(requests: Sequence[Request], bump: range, at_least_ns: int = 400 * MS) -> Tail:
    columns = RequestColumns.of(requests, attributes=True)
    box = Selection(
        at_least_ns=at_least_ns,
        at_most_ns=5 * SECOND_NS,
        since_ns=START_NS + bump.start * SECOND_NS,
        until_ns=START_NS + bump.stop * SECOND_NS,
    )
    selected = Durations(ns=columns.duration_ns[box.holds(columns)])
    split = Split.without_tail(durations_of(columns).without(selected))
    return tail_of_selection(columns, split, box, selected)


def test_a_bump_is_explained_by_its_own_stage_alone() -> None:
    bump = range(310, 330)
    found = selected(traffic(bump), bump)

    assert found.cause is not None
    assert (found.cause.kind, found.cause.stage) == (CauseKind.DEPENDENCY, Stage.RETRIEVE)
    assert found.tail_requests == len(bump)
    decode = next(one for one in found.stages if one.stage is Stage.DECODE)
    assert ends(decode)[1] < 20 * MS  # the slow ones of other times are not in it
    assert {int(trace_id, 16) - 1 for trace_id in found.examples} <= set(bump)


def test_what_a_bump_has_alone_is_named() -> None:
    bump = range(310, 330)
    found = selected(traffic(bump, instance="pod-9"), bump)

    assert found.cause is not None
    assert found.cause.kind is CauseKind.INSTANCE
    assert [(one.key, one.value) for one in found.attributes] == [("instance", "pod-9")]


def test_the_one_instance_of_a_new_version_is_not_called_bad() -> None:
    bump = range(310, 330)
    requests = [
        replace(one, version="2" if one.instance else "1")
        for one in traffic(bump, instance="pod-9")
    ]
    found = selected(requests, bump)

    assert found.cause is not None
    assert (found.cause.kind, found.cause.stage) == (CauseKind.DEPENDENCY, Stage.RETRIEVE)
    assert found.cause.trait is not None
    assert (found.cause.trait.key, found.cause.trait.value) == ("version", "2")


def test_a_few_requests_are_no_cause() -> None:
    bump = range(310, 319)
    found = selected(traffic(bump), bump)

    assert (found.needed_requests, found.cause) == (10, None)
    assert found.tail_requests == len(bump)
    assert {(one.low_ns, one.high_ns) for one in found.stages} == {(None, None)}


def test_a_selection_of_nothing_has_nothing_to_say() -> None:
    found = selected(traffic(range(0)), range(310, 330), at_least_ns=900 * MS)

    assert (found.tail_requests, found.cause, found.examples) == (0, None, ())


def test_usual_requests_have_no_cause() -> None:
    usual = [replace(one, instance="pod-1") for one in traffic(range(0))]
    found = selected(usual, range(200, 400), at_least_ns=115 * MS)

    assert found.attributes == ()


def test_a_selection_that_begins_below_the_median_is_compared_too() -> None:
    bump = range(310, 330)
    found = selected(traffic(bump), bump, at_least_ns=60 * MS)

    assert found.cause is not None
    assert found.cause.stage is Stage.RETRIEVE
    assert (found.tail_requests, found.threshold_ns) == (len(bump), 60 * MS)
    assert found.reference_requests > 100


def test_all_usual_requests_selected_leave_nothing_to_compare_with() -> None:
    found = selected(traffic(range(0)), range(COUNT), at_least_ns=0)

    assert (found.reference_requests, found.excess_ns, found.cause) == (0, None, None)
