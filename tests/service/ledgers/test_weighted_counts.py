"""A population of requests of which a share is sent: its figures are told, within chance."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from opentelemetry.sdk.trace.sampling import Decision

from latencytrace.agent.spans.sampling import ConsistentProbability
from latencytrace.model import Span, Stage
from latencytrace.model.objective import DAY_NS
from latencytrace.service.answers.compare import comparison, save_baseline
from latencytrace.service.answers.load.capacity import capacity_of
from latencytrace.service.answers.tail import tail
from latencytrace.service.answers.whatif import change_of, whatif
from latencytrace.service.cohort import Cohort
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.objectives.counts import ObjectiveCounts
from latencytrace.service.otlp.traces import check
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Order, Store
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.spans.otlp_messages import MS, child, message, one_span
from tests.support.fakes.contracts import FakeClock
from tests.support.few import few
from tests.support.waiting import PATIENCE_S

SHARES = {"quick": 0.07, "slow": 0.3, "all": 1.0}  # that the samplers of these services record
USUAL_MS = {"quick": 40, "slow": 110, "all": 80}
REQUESTS = 6_000
LIMIT_NS = 150 * MS
SURE = 4.5  # deviations, within which chance is


@dataclass(frozen=True)
class Sent:
    """A request of the population."""

    service: str
    spans: Sequence[Span]
    is_recorded: bool
    state: str

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.spans[0].end_ns - self.spans[0].start_ns


def population() -> Iterator[Sent]:
    """Every request, and what the sampler of our agent decides on it."""
    random = Random(23)
    began_ns = time.time_ns() - 60_000 * MS
    samplers = {name: ConsistentProbability(share) for name, share in SHARES.items()}
    for number in range(REQUESTS):
        service = random.choice(["quick", "quick", "slow", "all"])
        length_ms = max(round(random.lognormvariate(0, 0.4) * USUAL_MS[service]), 3)
        trace_id = random.getrandbits(128)
        root = one_span(
            f"{trace_id:032x}",
            f"{number + 1:016x}",
            start_ns=began_ns + number * MS,
            end_ns=began_ns + (number + length_ms) * MS,
            attributes={"http.route": "/chat", "http.request.method": "POST"},
        )
        work = child(root, f"{REQUESTS + number + 1:016x}", Stage.DECODE, 1, 1 + length_ms // 2)
        decided = samplers[service].should_sample(None, trace_id, "chat")
        yield Sent(
            service,
            [replace(one, service=service, instance=f"{service}-1") for one in (root, work)],
            decided.decision is Decision.RECORD_AND_SAMPLE,
            decided.trace_state.to_header() if decided.trace_state else "",
        )


@dataclass(frozen=True)
class Told:
    """The population, and what a service tells that got a share of it."""

    of_service: Mapping[str, Sequence[Sent]]
    store: Store
    telemetry: Telemetry
    objectives: Mapping[str, ObjectiveCounts]

    def sample(self, name: str, **labels: str) -> float:
        """One value of the metrics."""
        labels = {"route": "POST /chat", "model": "", **labels}
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    everyone = list(population())
    objectives = {
        name: ObjectiveCounts(
            made_objective(service=name, threshold_ns=LIMIT_NS, period_ns=30 * DAY_NS)
        )
        for name in SHARES
    }

    def judge(settled: Settled) -> None:
        for table in settled.tables:
            services = [table.roots[root].service for root in table.root.tolist()]
            for service, counts in objectives.items():
                places = np.flatnonzero(np.array(services) == service)
                counts.count(table, places, table.end_ns[places])

    clock, telemetry = FakeClock(), Telemetry()
    with closing(ChdbStore.open(tmp_path_factory.mktemp("population"))) as store:
        context = PipelineContext(keep_spans_ratio=0.0, on_settled=judge)
        pipeline = Pipeline(store, telemetry, clock, context)
        pipeline._committer.start()
        recorded = [one for one in everyone if one.is_recorded]
        for first in range(0, len(recorded), 500):
            posted = message([span for one in recorded[first : first + 500] for span in one.spans])
            states = [one.state for one in recorded[first : first + 500] for _ in one.spans]
            for resource, state in zip(posted.resource_spans, states, strict=True):
                resource.scope_spans[0].spans[0].trace_state = state
            clock.move_s(1)  # the last commit is long past
            pipeline.submit(check(posted.SerializeToString(), None, None)).result(
                timeout=PATIENCE_S
            )
        clock.move_s(60)
        while pipeline.step():
            clock.move_s(60)
        yield Told(
            {name: [one for one in everyone if one.service == name] for name in SHARES},
            store,
            telemetry,
            objectives,
        )
        pipeline.close()


@pytest.mark.parametrize("service", few(1, SHARES))
def test_as_many_requests_are_told_as_the_population_has(told: Told, service: str) -> None:
    everyone, share = told.of_service[service], SHARES[service]

    found = told.store.breakdown(Cohort(service=service))

    deviation = math.sqrt(len(everyone) * (1 - share) / share + 1)
    assert found.requests == pytest.approx(len(everyone), abs=SURE * deviation)
    if share == 1:
        assert found.requests == len(everyone)


@pytest.mark.parametrize("service", few(1, SHARES))
def test_times_are_those_of_the_population(told: Told, service: str) -> None:
    everyone, share = told.of_service[service], SHARES[service]
    lasted = np.array([one.duration_ns for one in everyone], np.float64)
    recorded = len(everyone) * share

    found = told.store.breakdown(Cohort(service=service))

    assert found.duration_ns is not None
    within = SURE * lasted.std() / math.sqrt(recorded)
    assert found.duration_ns.mean == pytest.approx(lasted.mean(), abs=within)
    for level, quantile_ns in ((0.5, found.duration_ns.p50), (0.9, found.duration_ns.p90)):
        rank = SURE * math.sqrt(level * (1 - level) / recorded)
        low, high = np.quantile(lasted, [max(level - rank, 0), min(level + rank, 1)])
        assert low <= quantile_ns <= high
    (decode,) = [one for one in found.stages if one.stage is Stage.DECODE]
    assert decode.mean_ns == pytest.approx(lasted.mean() / 2, abs=within)
    assert decode.requests == found.requests


def test_services_that_record_other_shares_are_weighed_against_each_other(told: Told) -> None:
    by_time = sum(one.duration_ns for each in told.of_service.values() for one in each)
    everyone = sum(map(len, told.of_service.values()))

    found = told.store.breakdown(Cohort())

    # Of what was recorded, the mean is that of the service that records all.
    assert found.duration_ns is not None
    assert found.duration_ns.mean == pytest.approx(by_time / everyone, rel=0.08)
    rows = told.store.requests(Cohort(), Order.NEWEST, 10_000)
    assert np.mean([one.duration_ns for one in rows]) > 1.1 * by_time / everyone


@pytest.mark.parametrize("service", few(1, SHARES))
def test_metrics_and_objectives_count_what_a_breakdown_does(told: Told, service: str) -> None:
    everyone = told.of_service[service]
    requests = told.store.breakdown(Cohort(service=service)).requests
    bad_ratio = sum(one.duration_ns > LIMIT_NS for one in everyone) / len(everyone)

    assert told.sample("latencytrace_requests_total", service=service, status="ok") == requests
    name = "latencytrace_request_duration_seconds"
    assert told.sample(f"{name}_count", service=service) == requests
    tally = told.objectives[service].rings.since_start
    assert tally.total == requests
    recorded = len(everyone) * SHARES[service]
    assert tally.bad / tally.total == pytest.approx(
        bad_ratio, abs=SURE * math.sqrt(bad_ratio * (1 - bad_ratio) / recorded) + 1e-9
    )


@pytest.mark.parametrize("service", few(1, SHARES))
def test_every_analysis_counts_the_population(told: Told, tmp_path: Path, service: str) -> None:
    cohort, shown = Cohort(service=service), f"service={service}"
    whole = told.store.breakdown(cohort)
    came = told.store.count(cohort)
    baselines = Baselines(tmp_path / "baselines")
    now_ns = time.time_ns()

    slow = tail(told.store, cohort, 0.9)
    sides = comparison(told.store, baselines, (shown, shown), 0.03, now_ns)
    faster = whatif(told.store, cohort, change_of("decode", 0.5, None))
    load = capacity_of(told.store, cohort, [], now_ns)
    saved = save_baseline(told.store, baselines, "all", shown, now_ns)

    for document in (slow, sides["a"], faster, load):
        assert document["requests"] == whole.requests
        assert document["recorded_requests"] == (None if SHARES[service] == 1 else came)
    assert saved["requests"] == whole.requests
    again = comparison(told.store, baselines, ("baseline:all", shown), 0.03, now_ns)
    assert again["a"] == sides["a"]
    assert whole.duration_ns is not None
    assert sides["a"]["duration_ns"] is not None
    assert sides["a"]["duration_ns"]["p50"] == round(whole.duration_ns.p50)
    assert faster["duration_ns"] is not None
    assert faster["duration_ns"]["p50"]["now"] == round(whole.duration_ns.p50)
    assert slow["tail_requests"] == pytest.approx(whole.requests / 10, rel=0.2)


def test_the_tail_of_services_that_record_other_shares_is_that_of_the_population(
    told: Told,
) -> None:
    everyone = [one.duration_ns for each in told.of_service.values() for one in each]

    document = tail(told.store, Cohort(), 0.9)

    assert document["threshold_ns"] == pytest.approx(np.quantile(everyone, 0.9), rel=0.08)


@pytest.mark.parametrize("service", few(1, SHARES))
def test_requests_are_listed_as_they_came(told: Told, service: str) -> None:
    recorded = {one.spans[0].trace_id for one in told.of_service[service] if one.is_recorded}

    rows = told.store.requests(Cohort(service=service), Order.NEWEST, 10_000)

    assert {one.trace_id for one in rows} == recorded
    exact = 1 / SHARES[service]
    assert {one.weight for one in rows} <= {math.floor(exact), math.ceil(exact)}


@pytest.mark.parametrize("service", few(1, SHARES))
def test_what_came_decides_whether_something_is_chance(told: Told, service: str) -> None:
    recorded = sum(one.is_recorded for one in told.of_service[service])

    assert told.objectives[service].rings.since_start.came.total == recorded
