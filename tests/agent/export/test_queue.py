"""The queue's bounds, in spans and in bytes: nothing is lost that was not counted."""

import threading

from opentelemetry.trace import Tracer

from latencytrace.agent.export.queue import UNWEIGHED_SPANS, SpanQueue
from latencytrace.agent.spans.provider import RecordingProvider
from tests.agent.export.test_exporter import sending
from tests.support.agent.receiving import Receiver
from tests.support.waiting import PATIENCE_S

HEAVY = "x" * 100_000


def tracer_into(queue: SpanQueue) -> Tracer:
    provider = RecordingProvider()
    provider.configure(queue.on_end)
    return provider.get_tracer("scope")


def test_what_is_too_heavy_for_the_queue_is_dropped_and_counted() -> None:
    queue = SpanQueue(100_000, 10_000_000)
    tracer = tracer_into(queue)

    for _ in range(UNWEIGHED_SPANS):
        tracer.start_span("light").end()
    for _ in range(1_000):
        tracer.start_span("heavy", attributes={"text": HEAVY}).end()

    assert len(queue) + queue.dropped == UNWEIGHED_SPANS + 1_000
    assert queue.weighed_bytes <= 10_000_000
    assert 90 <= len(queue) - UNWEIGHED_SPANS <= 100


def test_heavy_spans_that_were_not_weighed_where_they_ended_stop_the_next_ones() -> None:
    queue = SpanQueue(100_000, 1_000_000)
    tracer = tracer_into(queue)

    for number in range(30):
        tracer.start_span("heavy", attributes={"text": HEAVY}).end()
        if number == 19:
            queue.weigh()
    taken = queue.take(20)
    queue.weigh()
    tracer.start_span("after").end()

    assert (len(taken), queue.dropped) == (20, 10)
    assert (len(queue), queue.weighed_bytes) == (1, 0)


def test_values_within_values_have_their_weight_too() -> None:
    queue = SpanQueue(10, 1 << 30)
    span = tracer_into(queue).start_span("name")
    span.set_attribute("list", [HEAVY, {"key": [HEAVY]}])
    span.add_event("event", {"text": HEAVY})
    span.add_link(span.get_span_context(), {"text": HEAVY})
    span.end()

    queue.weigh()

    assert 400_000 < queue.weighed_bytes < 410_000


def test_drops_of_many_threads_are_all_counted() -> None:
    queue = SpanQueue(0, 1)
    tracer = tracer_into(queue)

    def program() -> None:
        for _ in range(2_000):
            tracer.start_span("name").end()

    threads = [threading.Thread(target=program) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert queue.dropped == 8_000


def test_a_batch_that_is_too_large_for_one_post_goes_in_several(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        tracer = program._provider.get_tracer("scope")
        for number in range(40):
            tracer.start_span(str(number), attributes={"text": HEAVY * 4}).end()
        assert program.exporter.flush(PATIENCE_S)

        counts = program.exporter.counts
        assert (counts.sent, counts.dropped, counts.in_flight) == (40, 0, 0)
    assert [span.name for span in receiver.spans] == [str(number) for number in range(40)]
    assert len(receiver.posts) > 3
