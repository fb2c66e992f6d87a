"""The tail of a cohort against its usual requests."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.analysis.tail.groups import Split, needed_requests
from latencytrace.analysis.tail.tail import no_tail, tail_of
from latencytrace.analysis.weighted import holm
from latencytrace.model import Request, Stage
from latencytrace.model.cohorts.breakdown import CauseKind, StageExcess, Tail
from latencytrace.model.cohorts.request_columns import (
    STAGES,
    Durations,
    KnownNumbers,
    RequestColumns,
)
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.simulation.tails import INCIDENTS, cohort, durations_of, ends, tail

MS = 1_000_000
SEEDS = range(9_000, 9_006)  # not those that it was built with


def found(requests: Sequence[Request], quantile: float = 0.9) -> Tail:
    columns = RequestColumns.of(requests, attributes=True)
    return tail_of(columns, Split.of(durations_of(columns), quantile), quantile)


def served(number: int, stages: dict[Stage, int]) -> Request:
    """The request of this number, one a second."""
    start_ns = START_NS + number * 10**9
    return made_request(stages=stages, start_ns=start_ns, trace_id=f"{number + 1:032x}")


def usual(count: int) -> list[Request]:
    """Requests of 70 to 130 ms, in no order."""
    lengths_ns = np.random.default_rng(1).permutation(np.linspace(70, 130, count) * MS)
    return [
        served(number, {Stage.DECODE: int(length_ns), Stage.EMBED: 5 * MS})
        for number, length_ns in enumerate(lengths_ns)
    ]


def slowed(requests: Sequence[Request], stage: Stage, length_ns: int, **more: object) -> Request:
    """One of the requests, with so much more of a stage."""
    one = requests[0]
    ledger = {**one.ledger, stage: one.ledger.get(stage, 0) + length_ns}
    return replace(one, ledger=ledger, duration_ns=sum(ledger.values()), **more)  # type: ignore[arg-type]


def incident(stage: Stage, **more: object) -> list[Request]:
    """Two hundred requests; every tenth takes half a second longer."""
    requests = usual(200)
    return [
        slowed([one], stage, 500 * MS + number, **more) if number % 10 == 3 else one
        for number, one in enumerate(requests)
    ]


durations = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


@given(durations, st.floats(0.75, 0.9999))
def test_every_request_is_in_one_band_and_the_tail_is_the_slowest(
    lengths_ns: list[int], quantile: float
) -> None:
    split = Split.of(Durations(ns=np.array(lengths_ns)), quantile)

    bands = split.bands()
    counts = [
        sum(band.at_least_ns <= length_ns <= band.at_most_ns for band in bands)
        for length_ns in lengths_ns
    ]
    assert set(counts) == {1}
    assert sum(split.counts) == len(lengths_ns)
    assert split.counts[3] == sum(length_ns >= split.threshold_ns for length_ns in lengths_ns)
    assert split.counts[3] >= 1


@pytest.mark.parametrize(
    ("key", "usually", "meanwhile", "bound"),
    [
        ("engine_kv_cache_use_percent", 60, 97, "over"),
        ("engine_speculative_acceptance_percent", 70, 15, "at most"),
    ],
)
def test_what_an_engine_told_meanwhile_is_named(
    key: str, usually: int, meanwhile: int, bound: str
) -> None:
    chance = np.random.default_rng(9_100)
    before = cohort(9_100, None, 20_000)
    slow = np.isin(np.arange(20_000) // 20, chance.choice(1_000, 30, replace=False))
    stages_ns = before.stages_ns.copy()
    stages_ns[slow, STAGES.index(Stage.DECODE)] += 3_000 * MS
    told = np.where(slow, meanwhile, usually) + chance.integers(-3, 4, 20_000)
    known = chance.random(20_000) < 0.9
    columns = replace(
        before,
        stages_ns=stages_ns,
        duration_ns=stages_ns.sum(axis=1),
        engine={key: KnownNumbers(value=np.where(known, told, 0), known=known)},
    )

    cause = tail_of(columns, Split.of(durations_of(columns), 0.99), 0.99).cause

    assert cause is not None
    assert (cause.kind, cause.stage) == (CauseKind.STAGE, Stage.DECODE)
    assert cause.trait is not None
    assert (cause.trait.key, cause.trait.value.startswith(bound)) == (key, True)


@pytest.mark.parametrize("slower", [36, 38, 40, 42])
@pytest.mark.parametrize("seed", [9_200, 9_201])
def test_of_two_causes_what_is_in_common_is_named_with_the_stage_that_it_makes_longer(
    seed: int, slower: int
) -> None:
    chance = np.random.default_rng(seed)
    count = 8_000
    globex = chance.random(count) < 0.2
    searches_ns = 45 * MS * chance.lognormal(0, 0.3, count)
    searches_ns[globex & (np.arange(count) > 0.6 * count)] *= slower
    tokens = 4 + 60 * chance.lognormal(0, 0.7, count)
    requests = [
        replace(
            served(number, {Stage.RETRIEVE: int(search_ns), Stage.DECODE: int(9 * MS * told)}),
            output_tokens=int(told),
            attributes=(("tenant", "globex" if is_globex else "acme"),),
        )
        for number, (search_ns, told, is_globex) in enumerate(
            zip(searches_ns, tokens, globex, strict=True)
        )
    ]

    cause = found(requests, 0.99).cause

    assert cause is not None
    assert cause.trait is not None
    assert (cause.trait.key, cause.stage) in {
        ("tenant", Stage.RETRIEVE),
        ("output_tokens", Stage.DECODE),
    }


def test_a_long_tail_is_read_in_part() -> None:
    split = Split.of(Durations(ns=np.arange(1_000_000)), 0.9)

    assert split.counts == (400_000, 200_001, 299_999, 100_000)
    assert [round(band.share_ratio, 3) for band in split.bands()] == [0.013, 0.05, 0.017, 0.04]


def test_excesses_of_stages_add_up_to_that_of_the_durations() -> None:
    answer = found(incident(Stage.RETRIEVE))

    assert answer.excess_ns is not None
    assert answer.excess_ns == pytest.approx(sum(one.excess_ns for one in answer.stages))
    assert answer.stages[0].stage is Stage.RETRIEVE
    assert answer.stages[0].excess_ns == pytest.approx(500 * MS, rel=0.01)
    assert (answer.requests, answer.tail_requests, answer.reference_requests) == (200, 20, 41)
    assert all(ends(one)[0] <= one.excess_ns <= ends(one)[1] for one in answer.stages)


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        (Stage.RETRIEVE, CauseKind.DEPENDENCY),
        (Stage.RETRY, CauseKind.DEPENDENCY),
        (Stage.RERANK, CauseKind.STAGE),
        (Stage.DECODE, CauseKind.STAGE),
        (Stage.QUEUE, CauseKind.WAITING),
        (Stage.RUNTIME, CauseKind.RUNTIME),
        (Stage.LOAD, CauseKind.COLD_START),
    ],
)
def test_a_stage_that_alone_grew_says_what_kind_of_cause_it_is(
    stage: Stage, kind: CauseKind
) -> None:
    answer = found(incident(stage))

    assert answer.cause is not None
    assert (answer.cause.kind, answer.cause.stage) == (kind, stage)


def test_a_stage_that_most_of_the_tail_does_not_have_is_not_its_cause() -> None:
    slow = (Stage.RETRIEVE, 10_000 * MS), (Stage.DECODE, 500 * MS)
    requests = [
        slowed([one], *slow[number % 50 > 15]) if number % 10 == 3 else one
        for number, one in enumerate(usual(200))
    ]

    answer = found(requests)

    assert max(answer.stages, key=lambda one: one.excess_ns).stage is Stage.RETRIEVE
    assert answer.cause is None or answer.cause.stage is not Stage.RETRIEVE


def test_an_instance_that_most_of_the_tail_shares_is_the_cause() -> None:
    answer = found(incident(Stage.DECODE, instance="pod-9"))

    assert answer.cause is not None
    assert answer.cause.kind is CauseKind.INSTANCE
    assert answer.cause.trait is not None
    assert (answer.cause.trait.key, answer.cause.trait.value) == ("instance", "pod-9")
    assert answer.cause.trait.tail_share_ratio == 1.0
    assert answer.cause.trait.p_value < 0.001


def test_a_kept_attribute_that_most_of_the_tail_shares_is_named_with_the_stage() -> None:
    answer = found(incident(Stage.RETRIEVE, attributes=(("collection", "big"), ("x", "y"))))

    assert answer.cause is not None
    assert answer.cause.kind is CauseKind.DEPENDENCY
    assert [(one.key, one.value) for one in answer.attributes] == [
        ("collection", "big"),
        ("x", "y"),
    ]


def test_status_is_told_and_never_the_cause() -> None:
    answer = found(incident(Stage.RETRIEVE, finish_reason="length"))

    assert [one.key for one in answer.attributes] == ["finish_reason"]
    assert answer.cause is not None
    assert answer.cause.trait is None


def test_examples_are_typical_requests_of_the_cause() -> None:
    requests = incident(Stage.RETRIEVE)

    answer = found(requests)

    slow = {one.trace_id for one in requests if Stage.RETRIEVE in one.ledger}
    assert len(answer.examples) == 3
    assert set(answer.examples) <= slow


def test_requests_that_are_all_alike_have_no_tail() -> None:
    answer = found([served(number, {Stage.DECODE: 100}) for number in range(300)])

    assert (answer.tail_requests, answer.reference_requests) == (300, 0)
    assert (answer.stages, answer.cause, answer.excess_ns) == ((), None, None)


def test_too_few_requests_have_stages_and_no_cause() -> None:
    answer = found(incident(Stage.RETRIEVE)[:60])

    assert answer.needed_requests == needed_requests(0.9) == 100
    assert answer.stages[0].stage is Stage.RETRIEVE
    assert (answer.attributes, answer.cause) == ((), None)
    assert {(one.low_ns, one.high_ns) for one in answer.stages} == {(None, None)}


def test_one_request_is_no_fault() -> None:
    answer = found(usual(1), 0.99)

    assert (answer.requests, answer.tail_requests, answer.cause) == (1, 1, None)
    assert answer.needed_requests == needed_requests(0.99) == 1000


def test_no_request_is_unknown() -> None:
    assert no_tail(0.99).threshold_ns is None
    assert no_tail(0.99).excess_ns is None


def test_p_values_are_corrected_step_by_step() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.5])).tolist() == [0.04, 0.09, 0.09, 0.5]
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_intervals_hold_the_mean_of_many_runs_about_as_often_as_they_say() -> None:
    base = cohort(1, None, 4000)
    runs = [slow_searches(base, seed) for seed in range(60)]

    truth_ns = np.mean([run.excess_ns for run in runs])

    held = sum(ends(run)[0] <= truth_ns <= ends(run)[1] for run in runs)
    assert 51 <= held <= 60  # of 57 expected


def slow_searches(base: RequestColumns, seed: int) -> StageExcess:
    """The excess in a search that took long for a few of these requests."""
    chance = np.random.default_rng(seed)
    stages_ns = np.zeros_like(base.stages_ns)
    slow = chance.random(len(base)) < 0.05
    search_ns = 60 * MS + slow * 1500 * MS * np.exp(chance.normal(0, 0.3, len(base)))
    stages_ns[:, STAGES.index(Stage.RETRIEVE)] = search_ns
    stages_ns[:, STAGES.index(Stage.DECODE)] = 500 * MS * chance.gamma(20, 1 / 20, len(base))
    columns = replace(base, stages_ns=stages_ns, duration_ns=stages_ns.sum(axis=1))
    first, *_ = tail_of(columns, Split.of(durations_of(columns), 0.98), 0.98).stages
    assert first.stage is Stage.RETRIEVE
    return first


@pytest.mark.parametrize("kind", INCIDENTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_cause_of_a_simulated_incident_is_named(kind: CauseKind, seed: int) -> None:
    cause = tail(seed, kind).cause

    assert cause is not None
    assert cause.kind is kind


@pytest.mark.parametrize("seed", range(9_100, 9_120))
def test_without_an_incident_nothing_is_named(seed: int) -> None:
    answer = tail(seed, None)

    assert answer.cause is None
    assert answer.attributes == ()


def test_what_a_column_says_is_not_listed_again_as_an_attribute() -> None:
    more = {
        "batch_size": 8,
        "attributes": (("latencytrace.batch.size", "8"), ("tenant", "bulk")),
    }
    requests = [
        replace(one, batch_size=one.batch_size or 1) for one in incident(Stage.QUEUE, **more)
    ]

    keys = {one.key for one in found(requests).attributes}

    assert keys == {"batch_size", "tenant"}
