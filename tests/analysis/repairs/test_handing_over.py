"""What outlives a span that only hands over goes on below the one above."""

from dataclasses import replace

from latencytrace.analysis.build_trace import build_traces
from latencytrace.model import RepairKind, Span, Trace
from tests.support.builders.spans.trees import root, span


def routing(end_ns: int) -> Span:
    made = span("route", 10, end_ns)
    return replace(made, name="route_to_replica M f", scope="ray.serve._private.tracing_utils")


def built(*spans: Span) -> Trace:
    return build_traces([root(), *spans])[0]


def test_a_replica_goes_on_after_the_routing() -> None:
    trace = built(routing(40), span("replica", 35, 90, parent="route"))

    assert (trace.spans["replica"].parent_id, trace.spans["replica"].end_ns) == ("root", 90)
    assert not trace.repairs


def test_what_ends_with_the_routing_stays_below_it() -> None:
    trace = built(routing(40), span("choice", 15, 30, parent="route"))

    assert trace.spans["choice"].parent_id == "route"


def test_work_that_outlives_another_span_is_clipped() -> None:
    trace = built(span("route", 10, 40), span("replica", 35, 90, parent="route"))

    assert [repair.kind for repair in trace.repairs] == [RepairKind.CLIPPED]
