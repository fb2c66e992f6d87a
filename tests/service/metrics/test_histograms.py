"""Our histograms of many observations against the client's own."""

import re

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.openmetrics.exposition import generate_latest

from latencytrace.service.metrics.exposition import scrape
from latencytrace.service.metrics.histograms import ManyHistogram
from latencytrace.service.metrics.protobuf import PROTOBUF

NAME, TEXT, LABELS = "took_seconds", "How long it took.", ("service", "stage")
BOUNDS = (0.001, 0.5, 1.0, 30.0)
seconds = st.floats(0, 100) | st.sampled_from(BOUNDS)
series = st.tuples(st.sampled_from("ab"), st.sampled_from(["decode", 'a "quoted" \\ one\n']))


@given(st.lists(st.tuples(series, st.lists(st.tuples(seconds, st.sampled_from("xyz"))))))
def test_they_show_what_the_clients_histograms_show(
    batches: list[tuple[tuple[str, str], list[tuple[float, str]]]],
) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    many = ManyHistogram(NAME, TEXT, LABELS, BOUNDS, ours)
    one_by_one = Histogram(NAME, TEXT, LABELS, buckets=BOUNDS, registry=theirs)

    for labels, observations in batches:
        many.observe(labels, observations, at_s=1.0)
        child = one_by_one.labels(*labels)
        for took_s, trace_id in observations:
            child.observe(took_s, {"trace_id": trace_id})

    assert shown(ours) == shown(theirs)


def shown(registry: CollectorRegistry) -> str:
    """Everything but when exemplars were seen, and when a series was made."""
    lines = generate_latest(registry).decode().splitlines()  # type: ignore[no-untyped-call] # there
    kept = [line for line in lines if "_created" not in line]
    return re.sub(r"(# \{.*\} \S+) \S+$", r"\1", "\n".join(kept), flags=re.MULTILINE)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4) | st.sampled_from(BOUNDS), st.sampled_from("xyz")),
        min_size=1,
        max_size=60,
    )
)
def test_many_at_once_are_counted_as_one_by_one(observations: list[tuple[float, str]]) -> None:
    at_once, one_by_one = CollectorRegistry(), CollectorRegistry()
    many = ManyHistogram(NAME, TEXT, LABELS, BOUNDS, at_once)
    each = ManyHistogram(NAME, TEXT, LABELS, BOUNDS, one_by_one)

    for _ in range(20):  # often enough to be many
        many.observe(("a", "decode"), observations * 2, at_s=1.0)
        for one in observations * 2:
            each.observe(("a", "decode"), [one], at_s=1.0)

    assert scrape(at_once, PROTOBUF, "").body == scrape(one_by_one, PROTOBUF, "").body
