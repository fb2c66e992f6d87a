"""Tickets and batches: one shared span, and what it was to each member in its own trace."""

import asyncio
import contextvars
import gc
import pickle
import queue
import threading
from collections.abc import Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as SUPPRESSED
from opentelemetry.context import Context, attach, set_value
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

import latencytrace
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.batching import MAX_SERVED, Batch, Ticket, new_ticket
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.agent.receiving import TracedProgram
from tests.support.waiting import PATIENCE_S

UNSAMPLED = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(TraceFlags.DEFAULT))


def request(spans: Spans) -> Timing:
    """The root span of a request, under way."""
    return spans.recorder.start("POST /embed", kind=SpanKind.SERVER, context=Context())


def ticket_of(spans: Spans, asked: Timing | Span, tokens: int | None = None) -> Ticket:
    """A ticket taken within a request."""
    span = asked.span if isinstance(asked, Timing) else asked

    def within() -> Ticket:
        attach(set_span_in_context(span))
        return new_ticket(spans.recorder, tokens)

    return contextvars.Context().run(within)


def batch(
    spans: Spans, tickets: Iterable[Ticket | None], stage: str = "forward", **more: str
) -> Batch:
    return Batch(lambda: spans.recorder, tickets, stage, dict(more))


def step_of(spans: Spans) -> RecordedSpan:
    """The one shared span."""
    (step,) = (span for span in spans.all if semconv.SHARED in span.attributes)
    return step


def members_of(spans: Spans, stage: str = "forward") -> list[RecordedSpan]:
    """What the batches were to their members."""
    return [
        span for span in spans.all if span.name == stage and semconv.SHARED not in span.attributes
    ]


def test_a_batch_is_one_span_in_a_trace_of_its_own(spans: Spans) -> None:
    creator, member = request(spans), request(spans)
    tickets = [ticket_of(spans, member)]

    def worker() -> None:
        creator.activate()  # the request that happened to start the worker
        with batch(spans, tickets, replica="0"):
            pass

    contextvars.Context().run(worker)

    step = step_of(spans)
    assert step.parent_id == 0
    assert step.trace_id not in {span_of(creator).trace_id, span_of(member).trace_id}
    assert dict(step.attributes) == {
        semconv.STAGE: Stage.FORWARD,
        semconv.BATCH_SIZE: 1,
        semconv.SHARED: True,
        "replica": "0",
    }


def span_of(timing: Timing) -> RecordedSpan:
    assert isinstance(timing.span, RecordedSpan)
    return timing.span


def test_each_member_gets_its_wait_and_the_batch_in_its_own_trace(spans: Spans) -> None:
    asked = [request(spans) for _ in range(3)]
    tickets = [ticket_of(spans, one) for one in asked]
    joined_ns = [ticket.since_ns for ticket in tickets]

    with batch(spans, tickets):
        pass

    step = step_of(spans)
    waits, served = spans.of(Stage.QUEUE), members_of(spans)
    assert [span.parent_id for span in waits] == [span_of(one).span_id for one in asked]
    assert [span.trace_id for span in served] == [span_of(one).trace_id for one in asked]
    assert [span.parent_id for span in served] == [span_of(one).span_id for one in asked]
    assert [span.started_ns for span in waits] == joined_ns
    assert {span.ended_ns for span in waits} == {step.started_ns}
    assert {(span.started_ns, span.ended_ns) for span in served} == {
        (step.started_ns, step.ended_ns)
    }
    assert {span.attributes[semconv.BATCH_SIZE] for span in served} == {3}


def test_step_and_members_are_linked_to_each_other_however_many(spans: Spans) -> None:
    tickets = [ticket_of(spans, request(spans), tokens=number) for number in range(300)]

    with batch(spans, tickets):
        pass

    step, served = step_of(spans), members_of(spans)
    assert [link.context.span_id for link in step.links] == [span.span_id for span in served]
    assert [(link.attributes or {})[semconv.BATCH_TOKENS] for link in step.links] == [*range(300)]
    assert {span.links[0].context.span_id for span in served} == {step.span_id}
    assert {(span.links[0].attributes or {})[semconv.SHARED] for span in served} == {True}
    assert step.attributes[semconv.BATCH_TOKENS] == sum(range(300))


def test_tokens_of_the_batch_are_told_where_all_members_tell_theirs(spans: Spans) -> None:
    with batch(spans, [ticket_of(spans, request(spans), 7), ticket_of(spans, request(spans))]):
        pass

    assert semconv.BATCH_TOKENS not in step_of(spans).attributes
    assert [span.attributes.get(semconv.BATCH_TOKENS) for span in members_of(spans)] == [7, None]


@pytest.mark.parametrize("tokens", ["7", 2.5, object()])
def test_tokens_that_are_no_count_are_unknown(spans: Spans, tokens: object) -> None:
    ticket = new_ticket(spans.recorder, tokens)

    assert ticket.tokens is None


def test_what_runs_inside_belongs_to_the_step(spans: Spans) -> None:
    with batch(spans, [ticket_of(spans, request(spans))]):
        spans.recorder.start("gemm").end()

    (inner,) = (span for span in spans.all if span.name == "gemm")
    assert inner.parent_id == step_of(spans).span_id
    assert get_current_span() is INVALID_SPAN


def test_a_name_of_ones_own_is_kept_beside_the_stage(spans: Spans) -> None:
    with batch(spans, [ticket_of(spans, request(spans))], stage="diarize"):
        pass

    (served,) = members_of(spans, "diarize")
    for span in (served, step_of(spans)):
        assert span.attributes[semconv.STAGE] == Stage.APPLICATION
        assert span.attributes[semconv.STAGE_NAME] == "diarize"


def test_what_a_batch_raises_passes_through_and_marks_every_member(spans: Spans) -> None:
    raised = MemoryError("a secret")
    tickets = [ticket_of(spans, request(spans)) for _ in range(2)]

    with pytest.raises(MemoryError) as caught, batch(spans, tickets):
        raise raised

    assert caught.value is raised
    for span in (step_of(spans), *members_of(spans)):
        assert span.attributes[semconv.ERROR_TYPE] == "MemoryError"
        assert span.status.status_code is StatusCode.ERROR
    assert "secret" not in repr([dict(span.attributes) for span in spans.all])


def test_an_async_batch_that_is_cancelled_ends_its_spans(spans: Spans) -> None:
    tickets = [ticket_of(spans, request(spans))]

    async def worker() -> None:
        async with batch(spans, tickets):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(worker())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())

    (served,) = members_of(spans)
    assert served.attributes[semconv.CANCELLED] is True
    assert step_of(spans).attributes[semconv.CANCELLED] is True


def test_a_member_whose_request_has_ended_is_recorded_and_counted(spans: Spans) -> None:
    asked = request(spans)
    ticket = ticket_of(spans, asked)
    asked.end()

    with batch(spans, [ticket]):
        pass

    assert members_of(spans)[0].parent_id == span_of(asked).span_id
    assert spans.recorder.batches.late == 1


def test_a_ticket_named_twice_counts_once(spans: Spans) -> None:
    ticket = ticket_of(spans, request(spans))

    with batch(spans, [ticket, None, ticket]):
        pass

    assert step_of(spans).attributes[semconv.BATCH_SIZE] == 1
    assert len(members_of(spans)) == 1


def test_a_ticket_served_again_waited_since_it_was_served_before(spans: Spans) -> None:
    ticket = ticket_of(spans, request(spans))

    for _ in range(2):
        with batch(spans, [ticket]):
            pass

    first, again = members_of(spans)
    assert [span.ended_ns for span in spans.of(Stage.QUEUE)] == [
        first.started_ns,
        again.started_ns,
    ]
    assert spans.of(Stage.QUEUE)[1].started_ns == first.ended_ns
    assert spans.recorder.batches.reused == 1


def test_a_ticket_makes_a_bounded_number_of_spans(spans: Spans) -> None:
    ticket = ticket_of(spans, request(spans))

    for _ in range(MAX_SERVED + 5):
        with batch(spans, [ticket]):
            pass

    assert len(members_of(spans)) == MAX_SERVED
    assert spans.recorder.batches.left_out == 5


def test_batches_that_overlap_record_no_wait_twice(spans: Spans) -> None:
    ticket = ticket_of(spans, request(spans))

    with batch(spans, [ticket]), batch(spans, [ticket]):
        pass

    assert len(members_of(spans)) == 2
    assert len(spans.of(Stage.QUEUE)) == 1


def test_a_ticket_that_is_let_go_has_waited_until_then(spans: Spans) -> None:
    asked = request(spans)
    ticket = ticket_of(spans, asked)

    del ticket
    gc.collect()

    (waited,) = spans.all
    assert waited.parent_id == span_of(asked).span_id
    assert waited.attributes == {
        semconv.STAGE: Stage.QUEUE,
        semconv.QUEUE_DEPTH: 0,
        semconv.CANCELLED: True,
    }
    assert spans.recorder.batches.unused == 1


def test_a_ticket_that_outlives_its_request_has_waited_until_that_ended(spans: Spans) -> None:
    asked = request(spans)
    ticket = ticket_of(spans, asked)
    asked.end()

    del ticket
    gc.collect()

    _, waited = spans.all
    assert waited.ended_ns == span_of(asked).ended_ns


def depths(spans: Spans) -> list[object]:
    """How many waited before each, as the spans of their waits tell."""
    return [one.attributes.get(semconv.QUEUE_DEPTH) for one in spans.of(Stage.QUEUE)]


def test_a_wait_tells_how_many_waited_before(spans: Spans) -> None:
    first, second, third = (ticket_of(spans, request(spans)) for _ in range(3))
    with batch(spans, [first]):
        late = ticket_of(spans, request(spans))
    with batch(spans, [second, third, late]):
        pass

    assert depths(spans) == [0, 1, 2, 2]
    assert not spans.recorder.waiting


def test_a_ticket_that_is_let_go_or_leaves_its_process_waits_no_more(spans: Spans) -> None:
    gone = ticket_of(spans, request(spans))
    del gone
    gc.collect()
    pickle.dumps(ticket_of(spans, request(spans)))
    with batch(spans, [ticket_of(spans, request(spans))]):
        pass

    assert depths(spans) == [0, 0]  # of the first, and of the last


def test_a_ticket_of_another_process_tells_no_depth(spans: Spans) -> None:
    sent = pickle.loads(pickle.dumps(ticket_of(spans, request(spans))))  # noqa: S301 - our own
    with batch(spans, [sent]):
        pass

    assert depths(spans) == [None]


def test_a_ticket_outside_of_any_request_adds_to_the_size_alone(spans: Spans) -> None:
    with batch(spans, [new_ticket(spans.recorder, None), ticket_of(spans, request(spans))]):
        pass

    assert step_of(spans).attributes[semconv.BATCH_SIZE] == 2
    assert len(step_of(spans).links) == 1


def test_a_batch_of_requests_that_are_not_sampled_records_nothing(spans: Spans) -> None:
    with batch(spans, [ticket_of(spans, NonRecordingSpan(UNSAMPLED))]):
        assert not get_current_span().is_recording()
        spans.recorder.start("gemm").end()

    assert spans.all == []
    assert get_current_span() is INVALID_SPAN


def test_a_member_that_is_not_sampled_is_counted_in_the_size(spans: Spans) -> None:
    tickets = [ticket_of(spans, NonRecordingSpan(UNSAMPLED)), ticket_of(spans, request(spans))]

    with batch(spans, tickets):
        pass

    assert step_of(spans).attributes[semconv.BATCH_SIZE] == 2
    assert [span.attributes[semconv.BATCH_SIZE] for span in members_of(spans)] == [2]


def test_where_nothing_is_to_be_recorded_nothing_is(spans: Spans) -> None:
    tickets = [ticket_of(spans, request(spans))]

    def suppressed() -> None:
        attach(set_value(SUPPRESSED, value=True))
        with batch(spans, tickets):
            pass

    contextvars.Context().run(suppressed)

    assert spans.all == []


def test_a_ticket_travels_to_another_thread(spans: Spans) -> None:
    waiting: queue.Queue[Ticket] = queue.Queue()
    asked = request(spans)

    def work() -> None:
        with batch(spans, [waiting.get(timeout=PATIENCE_S)]):
            pass

    worker = threading.Thread(target=work)
    worker.start()
    waiting.put(ticket_of(spans, asked))
    worker.join()

    assert members_of(spans)[0].trace_id == span_of(asked).trace_id


def test_a_ticket_that_was_pickled_goes_on_where_it_arrives(spans: Spans) -> None:
    asked = request(spans)
    ticket = ticket_of(spans, asked, tokens=9)

    arrived = pickle.loads(pickle.dumps(ticket))  # noqa: S301 - our own bytes
    since_ns = ticket.since_ns
    del ticket
    with batch(spans, [arrived]):
        pass

    (served,) = members_of(spans)
    assert (served.trace_id, served.parent_id) == (
        span_of(asked).trace_id,
        span_of(asked).span_id,
    )
    assert spans.of(Stage.QUEUE)[0].started_ns == since_ns
    assert served.attributes[semconv.BATCH_TOKENS] == 9
    assert spans.recorder.batches.unused == 0


def serve_elsewhere(pipe: Connection) -> None:
    spans = Spans()
    with batch(spans, [pipe.recv()]):
        pass
    (served,) = members_of(spans)
    (waited,) = spans.of(Stage.QUEUE)
    pipe.send((served.trace_id, served.parent_id, waited.start_time))


def test_a_ticket_travels_to_another_process(spans: Spans) -> None:
    asked = request(spans)
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve_elsewhere, args=(theirs,))
    process.start()
    ticket = ticket_of(spans, asked)
    ours.send(ticket)

    assert ours.poll(100)
    trace_id, parent_id, waited_since_ns = ours.recv()
    process.join()

    assert (trace_id, parent_id) == (span_of(asked).trace_id, span_of(asked).span_id)
    assert abs(waited_since_ns - asked.span.start_time) < 5_000_000_000  # type: ignore[attr-defined]  # ours


def test_one_batch_may_be_entered_again(spans: Spans) -> None:
    same = batch(spans, [ticket_of(spans, request(spans))])

    for _ in range(2):
        with same:
            pass

    assert len(members_of(spans)) == 2


def test_a_batch_that_is_entered_within_itself_goes_on(spans: Spans) -> None:
    batch = Batch(lambda: spans.recorder, [], "forward", {})

    with batch:
        with batch:
            pass
        inside = get_current_span()

    assert inside is spans.only
    assert get_current_span() is INVALID_SPAN


def test_the_programs_own_provider_records_batches_too() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    recorder = Recorder(provider.get_tracer("program"), raise_fault)
    tickets = []
    for _ in range(200):
        with provider.get_tracer("program").start_as_current_span("request"):
            tickets.append(new_ticket(recorder, None))

    with Batch(lambda: recorder, tickets, "forward", {}):
        pass

    ended = exporter.get_finished_spans()
    step = ended[-1]
    served = [span for span in ended if span.links and span is not step]
    assert len(served) == 200  # though the SDK keeps but 128 of the step's own links
    assert all(span.links[0].context == step.get_span_context() for span in served)


def test_the_public_calls_record_with_the_agent_that_runs(agent: TracedProgram) -> None:
    with latencytrace.stage("application"):
        ticket = latencytrace.enqueue(tokens=3)
        with latencytrace.batch([ticket], stage="embed", replica=1):
            pass

    received = {(span.name, span.parent_id is None) for span in agent.spans(4)}
    assert {("embed", True), ("embed", False), ("queue", False)} <= received
    counts = latencytrace.agent_status().batches._asdict()
    assert counts == {
        "steps": 1, "members": 1, "reused": 0, "left_out": 0, "late": 0, "unused": 0,
    }  # fmt: skip


def test_without_an_agent_a_batch_is_a_block_like_any_other() -> None:
    ticket = latencytrace.enqueue()

    with latencytrace.batch([ticket]):
        pass

    assert not isinstance(get_current_span(), RecordedSpan)
