"""Tables of requests are judged and counted for objectives as their requests are."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.columns.objects import requests_of
from latencytrace.analysis.columns.verdicts import BAD, GOOD, NOT_JUDGED, in_cohort, verdicts
from latencytrace.analysis.slo.verdict import is_good
from latencytrace.model import Measure, Objective, Stage, Tally
from latencytrace.model.objective import EACH_ROUTE
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.counts import ObjectiveIndex
from latencytrace.service.objectives.tally_ring import TallyRing
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_tables import MS, made_table
from tests.support.builders.traffic import Traffic
from tests.support.tables.ledger_tables import tables_of

GOOD_ONE, BAD_ONE = Tally(bad=0, total=1), Tally(bad=1, total=1)
VERDICTS = {True: GOOD, False: BAD, None: NOT_JUDGED}
seeds = st.integers(0, 1 << 32)
objectives = st.builds(
    lambda measure, stage, **more: made_objective(
        measure=measure, stage=stage if measure is Measure.STAGE else None, **more
    ),
    measure=st.sampled_from(Measure),
    stage=st.sampled_from([Stage.UNATTRIBUTED, Stage.NETWORK, Stage.DECODE]),
    route=st.sampled_from([None, "POST /chat", "GET /other"]),
    version=st.sampled_from([None, "1.0"]),
    model=st.sampled_from([None, "m"]),
    threshold_ns=st.sampled_from([0, 5, 30_000, 1500 * MS]),
    name=st.sampled_from("abc"),
)


@given(seeds, objectives)
def test_each_request_is_judged_as_by_itself(seed: int, objective: Objective) -> None:
    table = made_table(seed)
    requests = requests_of(table)

    expected = [VERDICTS[is_good(objective, one)] for one in requests]
    assert verdicts(objective, table).tolist() == expected
    assert in_cohort(objective, table).tolist() == [objective.counts(one) for one in requests]


@given(seeds, st.lists(objectives, max_size=3))
def test_what_violates_an_objective_is_told_alike(seed: int, some: list[Objective]) -> None:
    table, index = made_table(seed), ObjectiveIndex(some)

    any_route = [replace(one, route=None) if one.route == EACH_ROUTE else one for one in some]
    expected = [
        any(is_good(each, one) is False for each in any_route if each.counts(one))
        for one in requests_of(table)
    ]
    assert index.violated_in(table).tolist() == expected


@given(st.lists(seeds, min_size=1, max_size=3), st.lists(objectives, min_size=1, max_size=2))
def test_an_evaluator_counts_tables_as_their_requests(
    some: list[int], objectives: list[Objective]
) -> None:
    named = [replace(one, name=f"{at}") for at, one in enumerate(objectives)]
    found = []
    for as_tables in (True, False):
        with TemporaryDirectory() as folder:
            traffic = Traffic(Path(folder), *named)
            traffic.wall.now_ns = 10**16 + 10**13
            for table in map(made_table, some):
                one_by_one = [one for each in table.requests() for one in tables_of([each])]
                settled = Settled(tables=[table] if as_tables else one_by_one, until_ns=1)
                traffic.evaluator.count(settled)
            evaluator = traffic.evaluator
            found.append(
                (
                    evaluator.watched.since_start(),
                    evaluator.future_stamps,
                    evaluator.outdated,
                    [
                        (sorted(counts.rings.changes(), key=str), counts.latest.evidence(0))
                        for counts, _ in evaluator.watched.entries
                    ],
                )
            )
            traffic.memory.close()

    assert found[0] == found[1]


@given(st.lists(st.lists(st.tuples(st.integers(0, 600), st.booleans()), max_size=40), max_size=4))
def test_a_ring_counts_many_as_one_by_one(batches: list[list[tuple[int, bool]]]) -> None:
    many, one_by_one = TallyRing(10, 120), TallyRing(10, 120)

    for batch in batches:
        at_ns = np.array([at for at, _ in batch], np.int64)
        is_bad = np.array([bad for _, bad in batch], np.bool_)
        late = [not one_by_one.add(at, BAD_ONE if bad else GOOD_ONE) for at, bad in batch]
        assert many.add_all(at_ns, is_bad) == sum(late)
        assert sorted(many.changes(), key=str) == sorted(one_by_one.changes(), key=str)
    assert many.last_ns() == one_by_one.last_ns()
    for until_ns in range(0, 620, 7):
        assert many.tally(until_ns, 60) == one_by_one.tally(until_ns, 60)
