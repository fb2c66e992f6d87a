"""What ran inside a span that was never the current one is hung inside it."""

from dataclasses import replace

from latencytrace.analysis.build_trace import build_traces
from latencytrace.model import Span, Trace, semconv
from tests.support.builders.spans.trees import root, span


def chain(name: str, start_ns: int, end_ns: int, parent: str = "root") -> Span:
    made = span(
        name,
        start_ns,
        end_ns,
        parent=parent,
        attributes={semconv.OPENINFERENCE_SPAN_KIND: "CHAIN"},
    )
    return replace(made, scope="openinference.instrumentation.langchain")


def built(*spans: Span) -> Trace:
    return build_traces([root(), *spans])[0]


def test_a_call_goes_into_the_innermost_chain_that_it_ran_in() -> None:
    trace = built(
        span("call", 30, 50), chain("outer", 10, 90), chain("inner", 20, 80, parent="outer")
    )

    assert trace.spans["call"].parent_id == "inner"


def test_a_call_that_a_chain_does_not_hold_stays() -> None:
    trace = built(chain("outer", 10, 90), span("call", 5, 50))

    assert trace.spans["call"].parent_id == "root"


def test_a_call_within_two_chains_at_once_stays() -> None:
    trace = built(chain("one", 10, 90), chain("other", 10, 90), span("call", 30, 50))

    assert trace.spans["call"].parent_id == "root"


def test_chains_as_long_as_each_other_do_not_go_round() -> None:
    other = replace(chain("other", 10, 90), scope="openinference.instrumentation.langchain.x")

    trace = built(chain("one", 10, 90), other)

    assert trace.spans.keys() == {"root", "one", "other"}
