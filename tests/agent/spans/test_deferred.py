"""Attributes that are worked out when a span is sent: nobody can tell."""

import threading
from collections.abc import Mapping

import pytest

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.guard import FaultCounter
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.agent.spans.span import RecordedSpan, defer
from latencytrace.model.span import AttributeValue
from latencytrace.model.span_limits import SpanLimits
from tests.support.agent.hooked import Spans

LATER: Mapping[str, AttributeValue] = {"text": "a" * 200, "count": 7, "ratio": 0.5}


def ended(*, deferred: bool, limits: SpanLimits | None = None) -> RecordedSpan:
    """A span whose attributes are set between two others, or deferred in their place."""
    ended: list[RecordedSpan] = []
    provider = RecordingProvider()
    provider.configure(ended.append, limits=limits)
    span = provider.get_tracer("scope").start_span("name", start_time=1)
    assert isinstance(span, RecordedSpan)
    span.trace_id, span.span_id = 1, 2
    span.set_attribute("before", 1)
    if deferred:
        defer(span, "place", Deferred(lambda: LATER, 100))
    else:
        span.set_attributes(LATER)
    span.set_attribute("after", 2)
    span.end(3)
    return ended[0]


def encoded(span: RecordedSpan) -> bytes:
    return OtlpEncoder({}).encode([span])


@pytest.mark.parametrize(
    "limits", [None, SpanLimits(attributes=3), SpanLimits(length=10)], ids=["none", "few", "short"]
)
def test_they_are_sent_as_if_they_had_been_set(limits: SpanLimits | None) -> None:
    assert encoded(ended(deferred=True, limits=limits)) == encoded(
        ended(deferred=False, limits=limits)
    )


def test_they_are_read_as_if_they_had_been_set() -> None:
    span = ended(deferred=True)

    assert list(span.attributes.items()) == list(ended(deferred=False).attributes.items())


def test_they_are_shown_to_the_programs_processors() -> None:
    assert dict(ended(deferred=True).attributes) == {"before": 1, **LATER, "after": 2}
    assert '"count": 7' in ended(deferred=True).to_json()


def test_they_are_worked_out_once_though_two_threads_ask() -> None:
    calls: list[int] = []
    both = threading.Barrier(2)

    def work_out() -> Mapping[str, AttributeValue]:
        calls.append(1)
        return LATER

    deferred = Deferred(work_out, 0)

    def ask() -> None:
        both.wait()
        deferred.attributes()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert calls == [1]
    assert deferred.attributes() == LATER


def test_a_fault_leaves_them_out_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []
    monkeypatch.setattr(FaultCounter, "__call__", lambda _, doing, __: faults.append(doing))
    spans = Spans()
    span = spans.provider.get_tracer("scope").start_span("name")
    assert isinstance(span, RecordedSpan)
    defer(span, "place", Deferred(lambda: {"a": 1 // 0}, 0))
    span.set_attribute("after", 2)
    span.end()

    assert dict(spans.only.attributes) == {"after": 2}
    assert faults == ["working out attributes"]


def test_what_they_keep_counts_as_what_waits() -> None:
    queue = SpanQueue(10, 1 << 20)
    span = ended(deferred=True)
    queue.on_end(span)
    queue.weigh()

    assert queue.weighed_bytes > 100
