"""Samplers: OpenTelemetry's by their names, other people's, and consistent probability."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.sdk.trace._sampling_experimental import (  # the oracle
    composable_traceid_ratio_based,
    composite_sampler,
)
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AnyValue

from latencytrace.agent.guard import FaultCounter
from latencytrace.agent.spans.sampling import (
    ENTRY_POINTS,
    ConsistentProbability,
    SamplingTracer,
    sampling,
)
from latencytrace.errors import SettingsError
from tests.agent.spans.test_tracer import Watching
from tests.support.agent.hooked import Spans

ratios = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 0.1, 2**-40])
trace_ids = st.integers(1, 2**128 - 1)
states = st.sampled_from(
    [
        "",
        "rv:00000000000000",
        "rv:ffffffffffffff",
        "th:8",
        "th:8;rv:80000000000000",
        "rv:short",
        "x:y",
    ]
)


def sampled_by(name: str, argument: str = "") -> Spans:
    """Spans behind a provider that asks a sampler."""
    spans = Spans()
    spans.provider.configure(spans.all.append, sampling=sampling(name, argument))
    return spans


def tracer_of(spans: Spans) -> Tracer:
    return spans.provider.get_tracer("scope")


def context_with(state: str, trace_id: int = 7) -> Context:
    parent = SpanContext(
        trace_id,
        8,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=TraceState([("ot", state), ("vendor", "value")] if state else []),
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())


@given(ratios, trace_ids, states)
def test_a_consistent_decision_is_that_of_the_sdks_own_sampler(
    ratio: float, trace_id: int, state: str
) -> None:
    trace_state = TraceState([("ot", state)] if state else [])
    oracle = composite_sampler(composable_traceid_ratio_based(ratio))

    wanted = oracle.should_sample(None, trace_id, "name", trace_state=trace_state)
    ours = ConsistentProbability(ratio).should_sample(
        context_with(state, trace_id), trace_id, "name"
    )

    assert ours.decision is wanted.decision
    if ours.decision is Decision.RECORD_AND_SAMPLE:
        assert ours.trace_state is not None
        assert members(ours.trace_state) == members(wanted.trace_state)


def members(state: TraceState | None) -> set[str]:
    return set((state.get("ot") or "").split(";")) if state else set()


def test_what_is_sampled_says_to_everybody_below_how_many_it_stands_for() -> None:
    spans = sampled_by("parentbased_consistent_probability", "0.25")
    tracer = tracer_of(spans)

    headers: dict[str, str] = {}
    while not spans.all:
        with tracer.start_as_current_span("request"), tracer.start_as_current_span("below"):
            TraceContextTextMapPropagator().inject(headers)

    below, request = spans.all
    assert headers["tracestate"] == "ot=th:c"
    assert below.trace_id == request.trace_id
    assert request.trace_id & (2**56 - 1) >= 0xC << 52


@pytest.mark.parametrize(
    "name", ["traceidratio", "parentbased_traceidratio", "consistent_probability"]
)
def test_a_ratio_takes_its_share_and_whole_traces(name: str) -> None:
    spans = sampled_by(name, "0.5")
    tracer = tracer_of(spans)

    for _ in range(400):
        with tracer.start_as_current_span("request"):
            tracer.start_span("below").end()

    requests = {span.trace_id for span in spans.all if span.name == "request"}
    assert 120 < len(requests) < 280  # 8 standard deviations
    assert [span.trace_id for span in spans.all if span.name == "below"] == [
        span.trace_id for span in spans.all if span.name == "request"
    ]
    assert len(spans.all) == 2 * len(requests)


def test_a_decorated_function_asks_the_sampler_each_time() -> None:
    spans = sampled_by("traceidratio", "0.5")

    @tracer_of(spans).start_as_current_span("decorated")
    def program() -> None:
        """Nothing."""

    for _ in range(200):
        program()

    assert len({span.trace_id for span in spans.all}) == len(spans.all)
    assert 0 < len(spans.all) < 200


@pytest.mark.parametrize(
    ("name", "argument"), [("traceidratio", "2"), ("traceidratio", "half"), ("nobody's", "")]
)
def test_a_sampler_that_cannot_be_used_is_said(name: str, argument: str) -> None:
    with pytest.raises(SettingsError, match="OTEL_TRACES_SAMPLER"):
        sampling(name, argument)


@pytest.mark.parametrize("name", ["always_on", "parentbased_always_off"])
def test_a_sampler_that_takes_no_ratio_reads_none(name: str) -> None:
    assert sampling(name, "whatever") is not None


class ByName(Sampler):
    """A program's own: it looks at names, also below recorded spans."""

    def __init__(self, argument: str) -> None:
        self.argument = argument

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Mapping[str, AnyValue] | None = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide by the name."""
        if name == "raising":
            raise RuntimeError
        if name == "rubbish":
            return cast("SamplingResult", None)
        decision = {"not": Decision.DROP, "only recorded": Decision.RECORD_ONLY}
        return SamplingResult(
            decision.get(name, Decision.RECORD_AND_SAMPLE),
            {**(attributes or {}), "argument": self.argument},
            TraceState([("from", "sampler")]),
        )

    def get_description(self) -> str:
        """Say what it is."""
        return "ByName"


@pytest.fixture
def faults_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program does wrong is counted, as in production."""
    monkeypatch.setattr(FaultCounter, "__call__", lambda *_: None)


@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """A sampler that another distribution has an entry point for."""
    point = importlib.metadata.EntryPoint("by_name", f"{__name__}:ByName", ENTRY_POINTS)

    def entry_points(**_: str) -> importlib.metadata.EntryPoints:
        return importlib.metadata.EntryPoints([point])

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda _: ByName)
    return sampled_by("by_name", "told")


def test_a_sampler_of_others_decides_on_every_span_and_adds_to_it(by_name: Spans) -> None:
    tracer = tracer_of(by_name)

    with tracer.start_as_current_span("request", attributes={"a": 1}) as request:
        tracer.start_span("not").end()
        tracer.start_span("below").end()

    assert by_name.names == ["below", "request"]
    assert dict(by_name.all[1].attributes) == {"a": 1, "argument": "told"}
    assert request.get_span_context().trace_state == TraceState([("from", "sampler")])


def test_what_is_only_recorded_is_shown_to_processors_and_sent_to_nobody(by_name: Spans) -> None:
    watching = Watching()
    by_name.provider.add_span_processor(watching)

    with tracer_of(by_name).start_as_current_span("only recorded") as span:
        assert span.is_recording()
    assert by_name.provider.force_flush()

    assert not span.get_span_context().trace_flags.sampled
    assert by_name.all == []
    assert [shown.name for shown in watching.ended] == ["only recorded"]
    by_name.provider.shutdown()


@pytest.mark.parametrize("name", ["raising", "rubbish"])
def test_a_sampler_that_fails_loses_no_span(by_name: Spans, name: str) -> None:
    tracer_of(by_name).start_span(name).end()

    assert by_name.names == [name]


def test_a_sampler_is_told_of_no_links_by_an_empty_sequence() -> None:
    told: list[object] = []

    class Counting(ByName):
        """One that looks at links, as the SDK always gives it some."""

        def should_sample(self, *arguments: Any, **_: Any) -> SamplingResult:
            """Count them."""
            told.append(len(arguments[5]))
            return SamplingResult(Decision.DROP)

    spans = Spans()
    spans.provider.configure(
        spans.all.append,
        sampling=lambda tracer: SamplingTracer(tracer, Counting(""), asks_for_children=True),
    )
    tracer_of(spans).start_span("name").end()

    assert told == [0]


@pytest.mark.usefixtures("faults_are_counted")
@pytest.mark.parametrize("sampler", ["always_on", "parentbased_always_on", "always_off"])
def test_a_span_that_cannot_be_made_is_none_whatever_samples_it(sampler: str) -> None:
    rubbish: Any = object()
    tracer = tracer_of(sampled_by(sampler))

    tracer.start_span("kind", kind=rubbish).end()
    tracer.start_span("context", context=rubbish).end()
    with tracer.start_as_current_span("time", start_time=rubbish):
        pass
