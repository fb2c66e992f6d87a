"""`/metrics` in the forms that scrapers ask for."""

import gzip
from collections import Counter
from math import ceil, isclose, log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as ClientCounter
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from latencytrace.model import Stage
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.exposition import scrape
from latencytrace.service.metrics.histograms import ManyHistogram
from latencytrace.service.metrics.protobuf import PROTOBUF
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_requests import TRACE, made_request
from tests.support.servers.metric_families import decoded, native_counts

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
NATIVE = (  # as Prometheus sends it with native histograms switched on
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"
    "q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
)
CLASSIC = (  # and without
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,*/*;q=0.2"
)
BOUNDS = (0.001, 0.5, 1.0, 30.0)
seconds = st.floats(1e-9, 1e5) | st.sampled_from([0.0, *BOUNDS])
label = st.sampled_from(["rag", 'a "quoted" \\ one\n', "größer"])
series = st.dictionaries(label, st.lists(seconds, min_size=1), max_size=3)


def registry_of(observed: dict[str, list[float]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    histogram = ManyHistogram("took_seconds", "How long.", ("service",), BOUNDS, registry)
    requests = ClientCounter("requests", "How many.", ("service",), registry=registry)
    for service, times in observed.items():
        histogram.observe((service,), [(took_s, TRACE) for took_s in times], at_s=1.5)
        requests.labels(service).inc(len(times))
    return registry


def samples(families: Any) -> list[Any]:
    return sorted(
        (
            (one.name, sorted(one.labels.items()), one.value, one.exemplar)
            for family in families
            for one in family.samples
        ),
        key=repr,
    )


@given(series)
def test_text_says_what_the_clients_own_encoder_says(observed: dict[str, list[float]]) -> None:
    registry = registry_of(observed)

    ours = scrape(registry, OPEN_METRICS, "").body.decode()
    theirs = generate_latest(registry).decode()  # type: ignore[no-untyped-call] # there

    parse = text_string_to_metric_families
    assert samples(parse(ours)) == samples(parse(theirs))  # type: ignore[no-untyped-call] # there


@given(series)
def test_plain_text_has_the_same_numbers_without_exemplars(
    observed: dict[str, list[float]],
) -> None:
    registry = registry_of(observed)
    plain = samples(plain_families(scrape(registry, "text/plain", "").body.decode()))
    everything = generate_latest(registry).decode()  # type: ignore[no-untyped-call] # there
    families = text_string_to_metric_families(everything)  # type: ignore[no-untyped-call] # there

    assert plain == [(*one[:3], None) for one in samples(families)]


@given(series)
def test_protobuf_has_the_classic_buckets_the_native_ones_and_exemplars(
    observed: dict[str, list[float]],
) -> None:
    families = {one.name: one for one in decoded(scrape(registry_of(observed), NATIVE, "").body)}

    found = {one.label[0].value: one.histogram for one in families["took_seconds"].metric}
    assert found.keys() == observed.keys()
    for service, times in observed.items():
        histogram = found[service]
        assert histogram.sample_count == len(times)
        assert isclose(histogram.sample_sum, sum(times))
        within = {one.upper_bound: one.cumulative_count for one in histogram.bucket}
        for bound in BOUNDS:
            assert within[bound] == sum(took_s <= bound for took_s in times)
        assert histogram.zero_count == times.count(0)
        assert_native(native_counts(histogram), [took_s for took_s in times if took_s])
        shown = {one.exemplar.label[0].value for one in histogram.bucket if one.exemplar.label}
        assert shown == {TRACE}
    counted = families["requests_total"].metric if observed else ()
    assert {one.label[0].value: one.counter.value for one in counted} == {
        service: len(times) for service, times in observed.items()
    }


def assert_native(counts: dict[int, int], times: list[float]) -> None:
    """Hold buckets against logarithms; a time at a bound may round to either side of it."""
    left = Counter(counts)
    for took_s in times:
        exact = 8 * log2(took_s)
        number = round(exact) if isclose(exact, round(exact), abs_tol=1e-9) else ceil(exact)
        bucket = next(near for near in (number, number + 1) if left[near] > 0)
        assert 2 ** ((bucket - 1) / 8) * (1 - 1e-9) <= took_s <= 2 ** (bucket / 8) * (1 + 1e-9)
        left[bucket] -= 1
    assert not +left


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (NATIVE, "application/vnd.google.protobuf"),
        (CLASSIC, "application/openmetrics-text"),
        ("", "text/plain"),
        ("*/*", "text/plain"),
        ("text/html,*/*;q=0.8", "text/plain"),
        (f"{OPEN_METRICS},application/vnd.google.protobuf;q=0.5", "application/openmetrics-text"),
        ("application/vnd.google.protobuf;encoding=text", "text/plain"),
    ],
)
def test_the_form_is_the_one_that_the_scraper_prefers(accept: str, media_type: str) -> None:
    found = scrape(registry_of({"rag": [1.0]}), accept, "")

    assert found.media_type.partition(";")[0] == media_type


@pytest.mark.parametrize(
    ("accept_encoding", "is_packed"),
    [("gzip", True), ("deflate, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("", False)],
)
def test_the_answer_is_packed_where_the_scraper_unpacks(
    accept_encoding: str, *, is_packed: bool
) -> None:
    registry = registry_of({"rag": [1.0]})
    found = scrape(registry, OPEN_METRICS, accept_encoding)

    assert found.is_packed is is_packed
    body = gzip.decompress(found.body) if is_packed else found.body
    assert body == scrape(registry, OPEN_METRICS, "").body


def test_every_metric_of_the_service_is_there_in_every_form() -> None:
    telemetry = Telemetry()
    telemetry.counted.count(
        LedgerTable.of([made_request(stages={Stage.DECODE: 10**9}, input_tokens=3)])
    )

    families = decoded(scrape(telemetry.registry, PROTOBUF, "").body)
    text = scrape(telemetry.registry, OPEN_METRICS, "").body.decode()
    parsed = text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # there
    ends = ("_bucket", "_count", "_sum")
    of_text = {
        one.name.removesuffix(next((end for end in ends if one.name.endswith(end)), ""))
        if family.type == "histogram"
        else one.name
        for family in parsed
        for one in family.samples
    }

    assert {one.name for one in families if one.metric} == of_text
