"""The trace that headers carry, read by hand and by OpenTelemetry's propagators: the same."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from latencytrace.agent.toolkit.http.caller import NO_CALLER, caller_of, remote_parent

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
USUAL = f"00-{TRACE}-{PARENT}-01"


def digits(count: int) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=count, max_size=count)


usual = st.builds("00-{}-{}-{}".format, digits(32), digits(16), digits(2))
# With a character too many, too few, or another one somewhere: what hands and tools get wrong.
damaged = st.builds(
    lambda text, at, cut, by: text[:at] + by + text[at + cut :],
    usual,
    st.integers(0, 55),
    st.integers(0, 2),
    st.text("0f-_ +xXAF\t\n٣", max_size=2),
)


def by_propagator(header: str) -> SpanContext:
    return get_current_span(propagate.extract({"traceparent": header})).get_span_context()


def never() -> Context:
    raise AssertionError("the propagators are asked")


@pytest.fixture
def of_the_program() -> Iterator[Callable[[TextMapPropagator], None]]:
    """Set propagators as a program does."""
    before = propagate.get_global_textmap()
    yield propagate.set_global_textmap
    propagate.set_global_textmap(before)


@given(st.one_of(usual, damaged, st.text(max_size=60)))
@example(USUAL)
@example(f"00-{'0' * 32}-{PARENT}-01")
@example(f"00-{TRACE}-{'0' * 16}-01")
@example(f"ff-{TRACE}-{PARENT}-01")
@example(f"00-{TRACE.upper()}-{PARENT}-01")
@example(f"00-{TRACE}-{PARENT}-01-more")
@example(f" {USUAL}")
@example(f"{USUAL}\n")
@example(f"00-{TRACE[:-1]}-0{PARENT}-01")
def test_a_header_names_the_parent_that_the_propagator_finds(header: str) -> None:
    found = caller_of(
        header.encode("latin-1", "replace"),
        lambda: propagate.extract({"traceparent": header}),
        has_more=False,
    )

    parent = get_current_span(found).get_span_context()
    expected = by_propagator(header)
    assert parent == expected
    assert parent.is_remote == expected.is_remote


@given(usual)
def test_the_usual_form_needs_no_propagator(header: str) -> None:
    found = remote_parent(header.encode())

    assert (found is not None) == by_propagator(header).is_valid


def test_a_request_without_headers_of_a_trace_has_no_caller() -> None:
    assert caller_of(None, never, has_more=False) is NO_CALLER


@pytest.mark.parametrize(
    "headers",
    [{"traceparent": USUAL, "tracestate": "vendor=1"}, {"baggage": "user=1"}],
    ids=["trace state", "baggage"],
)
def test_more_than_a_parent_is_left_to_the_propagators(headers: Mapping[str, str]) -> None:
    expected = propagate.extract(headers)

    found = caller_of(USUAL.encode(), lambda: expected, has_more=True)

    assert found is expected


@pytest.mark.parametrize(
    "propagators", [[], [TraceContextTextMapPropagator(), CompositePropagator([])]]
)
def test_a_program_with_other_propagators_has_them_asked(
    of_the_program: Callable[[TextMapPropagator], None], propagators: list[TextMapPropagator]
) -> None:
    of_the_program(CompositePropagator(propagators))
    asked = Context()

    assert caller_of(USUAL.encode(), lambda: asked, has_more=False) is asked
    assert caller_of(None, lambda: asked, has_more=False) is asked
