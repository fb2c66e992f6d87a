"""The attributes by which a request may be asked for."""

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.tail.cohort_attributes import MOST_ATTRIBUTES, cohort_attributes
from latencytrace.model import AttributeValue, Span, Trace, semconv
from latencytrace.model.cohorts.breakdown import ATTRIBUTE_CHARACTERS
from tests.support.builders.spans.trees import root, span


def trace_of(attributes: dict[str, AttributeValue], *below: Span) -> Trace:
    return build_traces([root(100, attributes), *below])[0]


def test_every_attribute_has_its_text() -> None:
    pairs, _ = cohort_attributes(trace_of({"tenant": "acme", "beta": True, "turn": 3, "t": 0.7}))

    assert pairs == (("tenant", "acme"), ("beta", "true"), ("turn", "3"), ("t", "0.7"))


def test_a_requests_own_attributes_come_before_those_of_its_other_spans_in_order() -> None:
    later = span("later", 50, 60, attributes={"step": "b"})
    first = span("first", 10, 20, attributes={"step": "a", "tenant": "acme"})

    pairs, _ = cohort_attributes(trace_of({"tenant": "acme"}, later, first))

    assert pairs == (("tenant", "acme"), ("step", "a"), ("step", "b"))


def test_of_several_values_in_one_each_counts() -> None:
    pairs, _ = cohort_attributes(trace_of({"gen_ai.response.finish_reasons": ("stop", "length")}))

    assert [value for _, value in pairs] == ["stop", "length"]


def test_beyond_the_bound_attributes_are_counted() -> None:
    many: dict[str, AttributeValue] = {f"key{n}": n for n in range(MOST_ATTRIBUTES + 5)}

    pairs, left_out = cohort_attributes(trace_of(many))

    assert len(pairs) == MOST_ATTRIBUTES
    assert left_out == 5


def test_of_a_long_text_its_beginning_is_kept() -> None:
    pairs, _ = cohort_attributes(trace_of({"long": 1000 * "x"}))

    assert pairs == (("long", ATTRIBUTE_CHARACTERS * "x"),)


def test_what_cannot_tell_requests_apart_takes_no_place() -> None:
    attributes: dict[str, AttributeValue] = {
        semconv.INTERVALS: "respond:1+2",
        semconv.NETWORK_PHASES: "send:1+2;wait:3+4",
        semconv.BATCH_TOKENS: 3381,
        semconv.URL_PATH: "/users/7",
        "prompt": semconv.CONTENT_REMOVED,
        "nothing": None,
    }

    assert cohort_attributes(trace_of(attributes)) == ((), 0)
