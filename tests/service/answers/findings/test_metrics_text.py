"""Prometheus' text format, as its own library writes it."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from latencytrace.service.answers.findings.finding import Sample, samples


def test_labels_come_back_as_they_went_in() -> None:
    registry = CollectorRegistry()
    strange = 'a "quoted", \\back\\ and\nbroken {line} = x'
    Counter("posts", "Posts.", ["route", "code"], registry=registry).labels(strange, "1").inc(3)

    read = [s for s in samples(generate_latest(registry).decode()) if s.name == "posts_total"]

    assert read == [Sample(name="posts_total", labels={"route": strange, "code": "1"}, value=3.0)]


def test_every_line_of_a_histogram_is_a_sample() -> None:
    registry = CollectorRegistry()
    Histogram("seconds", "Durations.", buckets=(0.1, 1), registry=registry).observe(0.5)

    read = {s.name + s.labels.get("le", ""): s.value for s in samples(_text(registry))}

    assert read.items() >= {"seconds_bucket0.1": 0.0, "seconds_bucket+Inf": 1.0}.items()


def _text(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()
