"""What ran inside a span that was never the current one is hung inside it."""

from dataclasses import replace

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import AttributeValue, Span, Stage, Trace, semconv
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


def test_a_call_goes_into_its_chain_below_one_that_was_cancelled() -> None:
    generation: dict[str, AttributeValue] = {
        semconv.OPENINFERENCE_SPAN_KIND: "LLM",
        semconv.OPENINFERENCE_MODEL: "small",
        semconv.OPENINFERENCE_INPUT_TOKENS: 7,
        semconv.OPENINFERENCE_OUTPUT_TOKENS: 20,
    }
    chat = replace(chain("chat", 21, 79, parent="node"), attributes=generation)
    call = replace(
        span("call", 25, 78, attributes=generation), scope="openinference.instrumentation.openai"
    )

    (found,) = requests_of(
        [root(), chain("graph", 10, 50), chain("node", 20, 80, parent="graph"), chat, call], {}
    )
    trace = built(chain("graph", 10, 50), chain("node", 20, 80, parent="graph"), chat, call)

    assert trace.spans["call"].parent_id == "chat"
    assert (found.input_tokens, found.output_tokens) == (7, 20)
    assert found.ledger[Stage.REMOTE_MODEL] >= 78 - 25


def test_a_call_that_only_a_cancelled_chain_may_have_held_stays() -> None:
    trace = built(
        chain("graph", 10, 50), chain("node", 60, 80, parent="graph"), span("call", 45, 70)
    )

    assert trace.spans["call"].parent_id == "root"
    assert trace.spans["graph"].end_ns == 50


def test_chains_as_long_as_each_other_do_not_go_round() -> None:
    other = replace(chain("other", 10, 90), scope="openinference.instrumentation.langchain.x")

    trace = built(chain("one", 10, 90), other)

    assert trace.spans.keys() == {"root", "one", "other"}
