"""A plugin of pytest that has the SDK's own tests make their spans by our provider."""

import os
from collections.abc import Callable

import pytest
from opentelemetry.sdk import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Tracer

from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.sampling import SamplingTracer, sampling
from latencytrace.agent.spans.tracer import RecordingTracer, discard
from latencytrace.model.span_limits import UNLIMITED, SpanLimits

SDKS_LIMITS = {
    "max_span_attributes": "attributes",
    "max_events": "events",
    "max_links": "links",
    "max_event_attributes": "event_attributes",
    "max_link_attributes": "link_attributes",
    "max_span_attribute_length": "length",
    "max_attribute_length": "other_length",
}


class Provider(RecordingProvider):
    """Our provider, made as the SDK's is."""

    def __init__(
        self,
        sampler: Sampler | None = None,
        resource: Resource | None = None,
        *_: object,
        span_limits: trace.SpanLimits | None = None,
        active_span_processor: trace.SpanProcessor | None = None,
        **__: object,
    ) -> None:
        super().__init__()
        self.configure(
            discard,
            limits=limits(span_limits),
            sampling=sampling_by(sampler),
            resource=(resource or Resource.create()).attributes,
        )
        if active_span_processor is not None:
            self.add_span_processor(active_span_processor)


def sampling_by(theirs: Sampler | None) -> Callable[[RecordingTracer], Tracer] | None:
    """Have spans sampled as a program or the environment asks for."""
    if theirs is not None:
        return lambda tracer: SamplingTracer(tracer, theirs, asks_for_children=True)
    name = os.environ.get("OTEL_TRACES_SAMPLER")
    return sampling(name, os.environ.get("OTEL_TRACES_SAMPLER_ARG", "")) if name else None


def limits(theirs: trace.SpanLimits | None) -> SpanLimits:
    """Limit spans as a program or the environment asks for."""
    if theirs is None:
        return SpanLimits.parse(os.environ)
    said = {ours: getattr(theirs, name) for name, ours in SDKS_LIMITS.items()}
    return SpanLimits(**{key: UNLIMITED if n is None else n for key, n in said.items()})


def _put_ours_in_place() -> None:
    if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ:  # traced
        trace.TracerProvider = Provider  # type: ignore[misc, assignment]  # made as the SDK's


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Put it in place before any test is loaded."""
    _put_ours_in_place()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Put it in place anew, for there are tests that load the SDK's module again."""
    _put_ours_in_place()
