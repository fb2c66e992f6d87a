"""Detail that is recorded of a request, decided by its trace id alone."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from latencytrace.agent.budget.detail import (
    FULL,
    LAST,
    SAMPLED,
    SPARED,
    WITHOUT_CHEAP_CALLS,
    WITHOUT_GAPS,
    WITHOUT_INTERVALS,
    Detail,
)
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.spans.probability import RANDOM_BITS, randomness_of, threshold_of
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.hook import Patch
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model import Stage, semconv
from latencytrace.model.detail import TraceDetail

trace_ids = st.integers(1, 2**128 - 1)
steps = st.integers(FULL, LAST)
SAMPLED_FLAG, UNSAMPLED_FLAG = TraceFlags(TraceFlags.SAMPLED), TraceFlags(0)
NO_STATE = TraceState()


def called(
    trace_id: int, flags: TraceFlags = SAMPLED_FLAG, state: TraceState = NO_STATE
) -> Context:
    """The context of a request that another service has sent."""
    parent = SpanContext(trace_id, 8, is_remote=True, trace_flags=flags, trace_state=state)
    return set_span_in_context(NonRecordingSpan(parent), Context())


def at(step: int, control_ratio: float = 0.0) -> Detail:
    detail = Detail(control_ratio)
    detail.set_step(step)
    return detail


class Traced:
    """A recorder whose spans are kept.

    Args:
        detail: In which they are made.
    """

    def __init__(self, detail: Detail) -> None:
        self.ended: list[RecordedSpan] = []
        provider = RecordingProvider()
        provider.configure(self.ended.append, roots=detail.root)
        self.recorder = Recorder(provider.get_tracer("latencytrace"), raise_fault, detail)

    def root(self, attributes: Mapping[str, bool] | None = None) -> Span:
        """A span that begins a trace."""
        timing = self.recorder.start("work", attributes=attributes, context=Context())
        timing.end()
        return timing.span


def timed_by(recorder: Recorder) -> Callable[[], None]:
    """A function that a hook times."""

    def search() -> None:
        """Find nothing."""

    patch = Patch("library", "Client.search", Stage.RETRIEVE)
    return timed(search, beginning(search, patch, recorder))


def test_each_step_leaves_out_one_thing_more() -> None:
    levels = [at(step) for step in (FULL, WITHOUT_GAPS, WITHOUT_INTERVALS, WITHOUT_CHEAP_CALLS)]

    assert [level.gaps for level in levels] == [True, False, False, False]
    assert [level.intervals for level in levels] == [True, True, False, False]
    assert [level.lacks for level in levels] == [
        None,
        TraceDetail.NO_RUNTIME_GAPS,
        TraceDetail.NO_INTERVALS,
        TraceDetail.NO_CHEAP_CALLS,
    ]


@pytest.mark.parametrize("step", range(SAMPLED, LAST + 1))
def test_what_is_sampled_has_full_detail_and_each_step_halves_the_share(step: int) -> None:
    detail = at(step)

    assert detail.lacks is None
    assert detail.gaps
    assert detail.intervals
    assert detail.sampling_ratio == 0.5 ** (step - SAMPLED + 1)


@given(steps, trace_ids)
def test_a_request_from_outside_is_decided_the_same_way_however_often_it_is_asked(
    step: int, trace_id: int
) -> None:
    detail = at(step, control_ratio=0.25)

    assert len({at(step, 0.25).decide(called(trace_id)).detail for _ in range(3)}) == 1
    assert detail.decide(called(trace_id)).detail is not None


@given(steps, steps, trace_ids)
def test_a_trace_that_a_lower_step_spares_is_spared_by_every_higher_one(
    one: int, other: int, trace_id: int
) -> None:
    lower, higher = sorted((one, other))

    before = at(lower).decide(called(trace_id)).detail
    after = at(higher).decide(called(trace_id)).detail

    assert before is TraceDetail.FULL or after is TraceDetail.SERVER_SPAN


@given(steps, trace_ids)
def test_the_callers_trace_is_never_torn(step: int, trace_id: int) -> None:
    decision = at(step).decide(called(trace_id))

    assert decision.detail in {TraceDetail.FULL, TraceDetail.SERVER_SPAN}
    assert get_current_span(decision.caller).get_span_context().trace_id == trace_id


def test_what_a_caller_does_not_record_is_not_recorded_here() -> None:
    detail = at(SAMPLED)

    assert detail.decide(called(7, UNSAMPLED_FLAG)).detail is None


def test_randomness_that_a_trace_states_counts_in_place_of_its_id() -> None:
    detail = at(LAST)
    highest = TraceState([("ot", "rv:ffffffffffffff")])

    assert detail.decide(called(1)).detail is TraceDetail.SERVER_SPAN
    assert detail.decide(called(1, state=highest)).detail is TraceDetail.FULL


@given(st.sampled_from([0.01, 0.125, 0.5]), trace_ids)
def test_services_with_unlike_shares_put_the_same_traces_into_their_control_groups(
    ratio: float, trace_id: int
) -> None:
    smaller = at(FULL, ratio / 2).decide(called(trace_id)).detail
    larger = at(FULL, ratio).decide(called(trace_id)).detail

    assert smaller is TraceDetail.FULL or larger is TraceDetail.CONTROL


def test_a_control_group_has_its_share_of_the_requests_that_begin_here() -> None:
    detail = at(FULL, 0.25)

    decided = [detail.decide(Context()).detail for _ in range(4_000)]

    assert 850 < decided.count(TraceDetail.CONTROL) < 1_150  # 5.5 standard deviations
    assert decided.count(TraceDetail.FULL) == 4_000 - decided.count(TraceDetail.CONTROL)


def test_the_control_group_keeps_its_share_of_what_is_sampled() -> None:
    detail = at(SAMPLED + 1, 0.25)

    decided = [detail.decide(Context()).detail for _ in range(16_000)]

    kept = [one for one in decided if one is not None]
    assert 3_700 < len(kept) < 4_300
    assert 850 < kept.count(TraceDetail.CONTROL) < 1_150


def test_a_request_that_is_kept_begins_the_very_trace_that_was_decided_on() -> None:
    detail = at(SAMPLED)
    traced = Traced(detail)
    kept = [decision for _ in range(200) if (decision := detail.decide(Context())).detail]

    for decision in kept:
        traced.recorder.start("GET", kind=SpanKind.SERVER, context=decision.caller).end()

    assert len(traced.ended) == len(kept) > 50
    assert all(randomness_of(span.trace_id, None) >= threshold_of(0.5) for span in traced.ended)


def test_a_recorded_root_says_with_which_probability() -> None:
    traced = Traced(at(SAMPLED + 2))

    spans = [traced.root() for _ in range(400)]

    states = {span.get_span_context().trace_state.get("ot") for span in traced.ended}
    assert states == {"th:e"}  # 1 - 1/8
    assert 20 < len(traced.ended) < 90
    assert all(span.get_span_context().trace_id >> RANDOM_BITS for span in spans)


def test_a_root_that_is_not_recorded_tells_those_it_calls() -> None:
    traced = Traced(at(LAST))

    dropped = next(span for span in iter(traced.root, None) if span not in traced.ended)

    assert dropped.get_span_context().is_valid
    assert not dropped.get_span_context().trace_flags.sampled
    assert dropped.get_span_context() == dropped.get_span_context()


def test_children_go_with_their_root() -> None:
    traced = Traced(at(SAMPLED))

    for _ in range(100):
        root = traced.recorder.start("work", context=Context())
        traced.recorder.start("call", context=root.context()).end()
        root.end()

    names = [span.name for span in traced.ended]
    assert names.count("call") == names.count("work")
    assert 20 < names.count("work") < 80


def test_a_timed_call_that_begins_a_trace_is_decided_on_once() -> None:
    detail = at(SAMPLED)
    traced = Traced(detail)
    search = timed_by(traced.recorder)

    for _ in range(400):
        search()

    assert len(traced.ended) + detail.dropped == 400
    assert 150 < len(traced.ended) < 250


def test_a_timed_call_that_begins_a_trace_says_what_it_lacks() -> None:
    traced = Traced(at(WITHOUT_INTERVALS))
    search = timed_by(traced.recorder)

    search()
    with traced.recorder.tracer.start_as_current_span("outer"):
        search()

    told = [span.attributes.get(semconv.DETAIL) for span in traced.ended]
    assert told == ["no_intervals", None, None]


@pytest.mark.parametrize("key", [semconv.SHARED, semconv.STARTUP])
def test_what_many_share_or_a_process_loads_is_recorded_whatever_the_step(key: str) -> None:
    traced = Traced(at(LAST))

    for _ in range(50):
        traced.root({key: True})

    assert len(traced.ended) == 50


def test_within_a_spared_request_only_its_own_span_is_recorded() -> None:
    traced = Traced(at(FULL, control_ratio=1.0))
    request = traced.recorder.start("GET", kind=SpanKind.SERVER, context=Context())
    within = Context({**request.context(), SPARED: True})

    call = traced.recorder.start("search", Stage.RETRIEVE, context=within)
    call.end()
    request.end()

    assert [span.name for span in traced.ended] == ["GET"]
    assert call.span.get_span_context().span_id == request.span.get_span_context().span_id


def test_each_root_says_what_it_lacks() -> None:
    traced = Traced(at(WITHOUT_INTERVALS))

    root = traced.recorder.start("GET", kind=SpanKind.SERVER, context=Context())
    traced.recorder.start("call", context=root.context()).end()
    root.end()

    told = [span.attributes.get(semconv.DETAIL) for span in traced.ended]
    assert told == [None, "no_intervals"]


def test_a_forked_child_begins_with_full_detail_and_no_counts() -> None:
    detail = at(LAST, control_ratio=0.5)
    detail.count(None)

    detail.reset_after_fork()

    assert (detail.step, detail.dropped, detail.sampling_ratio) == (FULL, 0, 1.0)
    assert detail.spares  # the control group stays


def test_a_request_without_a_caller_is_dropped_as_often_as_the_step_says() -> None:
    detail = at(SAMPLED + 1)

    begun = [detail.begin() for _ in range(4_000)]

    kept = [context for context in begun if SPARED not in context]
    assert 850 < len(kept) < 1_150
    assert detail.dropped == 4_000 - len(kept)
    assert all(detail.decide(context).detail is TraceDetail.FULL for context in kept)


def test_the_ids_of_a_request_that_is_dropped_agree_with_the_decision() -> None:
    detail = at(LAST)

    begun = (detail.begin() for _ in range(100))
    contexts = [get_current_span(one).get_span_context() for one in begun if SPARED in one]

    assert len({context.trace_id for context in contexts}) == len(contexts) > 80
    assert all(randomness_of(context.trace_id, None) < detail.threshold for context in contexts)
    assert all(context.is_valid and not context.trace_flags.sampled for context in contexts)
