"""The hook of LitServe: its own request handlers and loops, with a queue that pickles between."""

import asyncio
import contextvars
import pickle
from collections.abc import Iterator
from queue import Queue
from typing import Any

import litserve
import pytest
from litserve.callbacks import CallbackRunner
from litserve.loops.base import _SENTINEL_VALUE
from litserve.loops.simple_loops import BatchedLoop, SingleLoop
from litserve.loops.streaming_loops import BatchedStreamingLoop, StreamingLoop
from litserve.server import RegularRequestHandler
from litserve.transport.process_transport import MPQueueTransport
from opentelemetry.context import Context, attach
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from latencytrace.agent.hooks.litserve import LitserveHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, interval_stages


class Hop(Queue[Any]):
    """A queue between processes: what is put there is pickled."""

    def _put(self, item: Any) -> None:
        super()._put(pickle.dumps(item))

    def _get(self) -> Any:
        return pickle.loads(super()._get())  # noqa: S301 - our own


class Api(litserve.LitAPI):  # type: ignore[misc] # it has no types
    """Doubles numbers; whoever asks for 13 fails."""

    spans: Spans

    def setup(self, device: str) -> None:
        """Nothing to load."""

    def decode_request(self, request: Any) -> Any:
        """Its number."""
        return request["x"]

    def predict(self, x: Any) -> Any:
        """Of one number, or of a batch."""
        self.spans.recorder.start("inside").end()
        numbers = x if isinstance(x, list) else [x]
        if 13 in numbers:
            raise ValueError("an unlucky number")
        doubled = [2 * number for number in numbers]
        return doubled if isinstance(x, list) else doubled[0]


class Streaming(Api):
    """The same in two chunks."""

    def predict(self, x: Any) -> Any:
        """Chunks."""
        yield x
        self.spans.recorder.start("second chunk").end()
        yield x

    def encode_response(self, output: Any) -> Any:
        """As they come."""
        yield from output

    def unbatch(self, output: Any) -> Any:
        """Of a batch, too."""
        yield from output


class Async(Api):
    """The same in a loop of tasks."""

    async def decode_request(self, request: Any) -> Any:
        """At once."""
        return super().decode_request(request)

    async def encode_response(self, output: Any) -> Any:
        """At once."""
        return output

    async def predict(self, x: Any) -> Any:
        """Later."""
        await asyncio.sleep(0)
        return super().predict(x)


@pytest.fixture(scope="module")
def hooks() -> Iterator[Spans]:
    with hooked(LitserveHook) as spans:
        yield spans


@pytest.fixture
def spans(hooks: Spans) -> Spans:
    """None yet."""
    hooks.all.clear()
    Api.spans = hooks
    return hooks


class Served:
    """An API behind LitServe's own queue, whose worker runs when it is told to."""

    def __init__(self, api: litserve.LitAPI, timeout: float = 30) -> None:
        self.api = api
        self.server = litserve.LitServer(api, accelerator="cpu", timeout=timeout)
        self.server.app.response_queue_id = 0
        self.queue = Hop()
        self.server.litapi_request_queues[api.api_path] = self.queue
        self.answers: Queue[Any] = Queue()

    def ask(self, spans: Spans, number: int, *, within: Span | None = None) -> RecordedSpan:
        """Put a request into the queue as its endpoint does."""
        span = within or spans.provider.get_tracer("server").start_span(
            "POST /predict", context=Context(), kind=SpanKind.SERVER
        )

        def submit() -> None:
            attach(set_span_in_context(span))
            handler = RegularRequestHandler(self.api, self.server)
            asyncio.run(handler._submit_request({"x": number}))

        contextvars.Context().run(submit)
        return span  # type: ignore[return-value] # ours, unless the test gave another

    def work(self, loop: Any) -> list[Any]:
        """Let a worker do what waits; what it answered."""
        self.queue.put(_SENTINEL_VALUE)
        transport = MPQueueTransport(None, [self.answers])
        run = contextvars.Context().run
        run(loop, self.api, "cpu", 0, self.queue, transport, {}, CallbackRunner())
        return list(self.answers.queue)


def below(spans: Spans, request: RecordedSpan) -> list[RecordedSpan]:
    """The spans of a request's trace but its own, in order of their start."""
    found = [
        span for span in spans.all if span.trace_id == request.trace_id and span is not request
    ]
    return sorted(found, key=lambda span: span.start_time or 0)


def step_of(spans: Spans) -> RecordedSpan:
    (step,) = (span for span in spans.all if semconv.SHARED in span.attributes)
    return step


def batched(size: int, *, api: type[Api] = Api, **more: Any) -> Served:
    return Served(api(max_batch_size=size, batch_timeout=0, **more))


def test_each_member_of_a_batch_waits_and_is_served_in_its_own_trace(spans: Spans) -> None:
    served = batched(3)
    requests = [served.ask(spans, number) for number in (1, 2, 3)]

    answers = served.work(BatchedLoop())

    assert [answer for _, (answer, *_) in answers] == [2, 4, 6]
    step = step_of(spans)
    assert step.parent_id == 0
    assert step.attributes[semconv.BATCH_SIZE] == 3
    for request in requests:
        queue, forward = below(spans, request)
        assert queue.attributes[semconv.STAGE] == Stage.QUEUE
        assert forward.attributes[semconv.STAGE] == Stage.FORWARD
        assert queue.parent_id == forward.parent_id == request.span_id
        assert queue.end_time == forward.start_time == step.start_time
        assert [link.context.span_id for link in forward.links] == [step.span_id]
    assert len(step.links) == 3


def test_what_is_done_for_a_batch_lies_in_the_batch(spans: Spans) -> None:
    served = batched(2)
    requests = [served.ask(spans, number) for number in (1, 2)]

    served.work(BatchedLoop())

    (inside,) = (span for span in spans.all if span.name == "inside")
    assert inside.parent == step_of(spans).get_span_context()
    for request in requests:
        forward = below(spans, request)[-1]
        assert interval_stages(forward) == {Stage.PREPROCESS, Stage.POSTPROCESS}


def test_a_batch_beyond_the_usual_limit_of_links_is_linked_to_all(spans: Spans) -> None:
    served = batched(200)
    for number in range(100, 300):
        served.ask(spans, number)

    served.work(BatchedLoop())

    assert len(step_of(spans).links) == 200


def test_a_batch_that_fails_marks_every_member_with_the_type_of_the_error(spans: Spans) -> None:
    served = batched(2)
    requests = [served.ask(spans, number) for number in (1, 13)]

    served.work(BatchedLoop())

    for request in requests:
        assert below(spans, request)[-1].attributes[semconv.ERROR_TYPE] == "ValueError"
    assert step_of(spans).attributes[semconv.ERROR_TYPE] == "ValueError"
    assert "unlucky" not in repr([dict(span.attributes) for span in spans.all])


def test_who_is_served_alone_has_all_of_it_in_its_own_trace(spans: Spans) -> None:
    served = Served(Api())
    requests = [served.ask(spans, number) for number in (1, 13, 2)]

    served.work(SingleLoop())

    errors = []
    for request in requests:
        queue, forward, inside = below(spans, request)
        assert [queue.name, forward.name, inside.name] == ["queue", "forward", "inside"]
        assert queue.end_time == forward.start_time
        assert inside.parent == forward.get_span_context()
        assert Stage.PREPROCESS in interval_stages(forward)
        errors.append(forward.attributes.get(semconv.ERROR_TYPE))
    assert errors == [None, "ValueError", None]
    assert not [span for span in spans.all if semconv.SHARED in span.attributes]


def test_a_stream_lasts_until_its_last_chunk(spans: Spans) -> None:
    served = Served(Streaming(stream=True))
    request = served.ask(spans, 1)

    served.work(StreamingLoop())

    _, forward, chunk = below(spans, request)
    assert chunk.name == "second chunk"
    assert chunk.parent == forward.get_span_context()


def test_a_batch_of_streams_lasts_until_the_last_chunk(spans: Spans) -> None:
    served = batched(2, api=Streaming, stream=True)
    requests = [served.ask(spans, number) for number in (1, 2)]

    with pytest.raises(Exception, match="sentinel"):  # its loop knows no better end
        served.work(BatchedStreamingLoop())

    (chunk,) = (span for span in spans.all if span.name == "second chunk")
    assert chunk.parent == step_of(spans).get_span_context()
    assert [len(below(spans, request)) for request in requests] == [2, 2]


def test_tasks_of_one_loop_are_served_each_in_its_own_trace(spans: Spans) -> None:
    served = Served(Async(enable_async=True))
    requests = [served.ask(spans, number) for number in (1, 13)]

    loop = SingleLoop()

    async def both() -> None:
        transport = MPQueueTransport(None, [served.answers])
        tasks = [
            loop._process_single_request(
                served.queue.get(), served.api, transport, CallbackRunner()
            )
            for _ in requests
        ]
        await asyncio.gather(*tasks)

    contextvars.Context().run(asyncio.run, both())

    for request, error in zip(requests, (None, "ValueError"), strict=True):
        queue, forward, inside = below(spans, request)
        assert [queue.name, inside.name] == ["queue", "inside"]
        assert inside.parent == forward.get_span_context()
        assert forward.attributes.get(semconv.ERROR_TYPE) == error


def test_who_waited_too_long_was_in_the_queue_and_is_refused(spans: Spans) -> None:
    served = Served(Api(), timeout=1e-9)
    request = served.ask(spans, 1)

    served.work(SingleLoop())

    queue, forward = below(spans, request)
    assert queue.name == "queue"
    assert forward.attributes[semconv.ERROR_TYPE] == "HTTPException"


def test_an_answers_way_back_begins_where_its_work_ended(spans: Spans) -> None:
    served = batched(1)
    served.answers = Hop()
    request = served.ask(spans, 1)
    served.work(BatchedLoop())

    asyncio.run(MPQueueTransport(None, [served.answers]).areceive(0))

    _, forward, answer = below(spans, request)
    assert (answer.name, answer.attributes[semconv.STAGE]) == ("answer", Stage.TRANSFER)
    assert answer.parent_id == request.span_id
    assert answer.start_time == forward.end_time


def test_only_the_last_chunk_of_a_stream_has_a_way_back(spans: Spans) -> None:
    served = Served(Streaming(stream=True))
    request = served.ask(spans, 1)
    served.answers = Hop()
    served.work(StreamingLoop())
    *chunks, last = [served.answers.get() for _ in range(served.answers.qsize())]

    assert {type(uid) for uid, _ in chunks} == {str}
    served.answers.put(last)
    asyncio.run(MPQueueTransport(None, [served.answers]).areceive(0))
    assert [span.name for span in below(spans, request)].count("answer") == 1


@pytest.mark.usefixtures("hooks")
def test_a_worker_is_given_litserves_own_queue() -> None:
    served = Served(Api())
    served.server.litapi_request_queues["/predict"] = "a queue"

    sent = pickle.dumps(served.server._get_request_queue("/predict"))

    assert b"latencytrace" not in sent
    assert pickle.loads(sent) == "a queue"  # noqa: S301 - our own


def test_outside_of_any_traced_request_there_are_no_tickets(spans: Spans) -> None:
    served = batched(1)
    unsampled = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(TraceFlags.DEFAULT))

    served.server._get_request_queue("/predict").put_nowait((0, "id", 0.0, {"x": 1}))
    assert [type(part) for part in served.queue.get()] == [int, str, float, dict]
    served.ask(spans, 1, within=NonRecordingSpan(unsampled))
    served.work(BatchedLoop())

    assert spans.all == []
