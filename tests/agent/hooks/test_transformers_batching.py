"""The hook of transformers' continuous batching, with a real batch of a tiny model."""

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.context import Context
from transformers import ContinuousBatchingConfig, GenerationConfig

from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.agent.hooks.transformers_batching import Member, TransformersBatchingHook
from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_token_times
from tests.support.agent.hooked import Spans, hooked
from tests.support.models.tiny_chat import TinyChat
from tests.support.waiting import PATIENCE_S

PROMPT = [3, 4, 5, 6]
NEVER = 63  # a token that ends nothing


@pytest.fixture(scope="module")
def hooks(tiny_chat: TinyChat) -> Iterator[Spans]:
    assert tiny_chat.model.init_continuous_batching  # making it imported what the hook is for
    with hooked(ThreadsHook, TransformersBatchingHook) as spans:
        yield spans


@pytest.fixture
def spans(hooks: Spans) -> Spans:
    """None yet."""
    hooks.all.clear()
    return hooks


@contextmanager
def running(chat: TinyChat, spans: Spans, num_blocks: int = 16) -> Iterator[Any]:
    """A batch whose thread runs, started within a request as servers do."""
    manager = chat.model.init_continuous_batching(
        generation_config=GenerationConfig(max_new_tokens=5, eos_token_id=NEVER, do_sample=False),
        continuous_batching_config=ContinuousBatchingConfig(
            num_blocks=num_blocks, page_size=32, max_batch_tokens=64
        ),
    )
    with spans.recorder.tracer.start_as_current_span("starts it"):
        manager.start()
    spans.all.clear()
    yield manager
    manager.stop(block=True, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def batch(tiny_chat: TinyChat, hooks: Spans) -> Iterator[Any]:
    with running(tiny_chat, hooks) as batch:
        yield batch


def generated(batch: Any, prompt: list[int] = PROMPT) -> Any:
    return last_of(batch, batch.add_request(prompt, max_new_tokens=5))


def last_of(batch: Any, request: str) -> Any:
    return next(made for made in batch.request_id_iter(request) if made.is_finished())


def of(spans: Spans, request: RecordedSpan) -> list[RecordedSpan]:
    """The spans below a request, in order of their start."""
    trace_id = request.get_span_context().trace_id
    found = (span for span in spans.all if span.get_span_context().trace_id == trace_id)
    below = (span for span in found if span is not request)
    return sorted(below, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))


def test_a_member_waits_is_prefilled_and_decoded(spans: Spans, batch: Any) -> None:
    with spans.recorder.tracer.start_as_current_span("request", context=Context()) as request:
        made = generated(batch)

    assert isinstance(request, RecordedSpan)
    queue, whole, prefill, decode = of(spans, request)
    assert [queue.name, whole.name, prefill.name, decode.name] == [
        *("queue", "generate", "prefill", "decode")
    ]
    assert queue.parent == whole.parent == request.get_span_context()
    assert prefill.parent == decode.parent == whole.get_span_context()
    assert queue.end_time == whole.start_time == prefill.start_time
    assert prefill.end_time == decode.start_time
    assert whole.attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] == len(PROMPT)
    assert whole.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == len(made.generated_tokens) == 5
    assert whole.attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("length",)
    times = unpack_token_times(str(decode.attributes[semconv.TOKEN_TIMES]), decode.start_time or 0)
    assert len(times.lengths_ns) == 5 - 1


def test_each_member_is_in_its_own_trace(spans: Spans, batch: Any) -> None:
    requests, names = [], []
    for name in ("first", "second"):
        with spans.recorder.tracer.start_as_current_span(name, context=Context()) as request:
            requests.append(request)
            names.append(batch.add_request(PROMPT, max_new_tokens=5))

    for name in names:
        last_of(batch, name)

    stages = [Stage.QUEUE, Stage.PREPROCESS, Stage.PREFILL, Stage.DECODE]
    for request in requests:
        assert isinstance(request, RecordedSpan)
        assert [s.attributes[semconv.STAGE] for s in of(spans, request)] == stages


def test_outside_of_any_request_nothing_is_timed(spans: Spans, batch: Any) -> None:
    made = generated(batch)

    assert len(made.generated_tokens) == 5
    assert spans.all == []


def test_a_cancelled_member_ends_its_spans(spans: Spans, batch: Any) -> None:
    with spans.recorder.tracer.start_as_current_span("request", context=Context()):
        request = batch.add_request(PROMPT, max_new_tokens=200, streaming=True)
        next(batch.request_id_iter(request))
        batch.cancel_request(request)
        spans.wait_for(4)

    assert sorted(spans.names[:4]) == ["decode", "generate", "prefill", "queue"]
    (whole,) = (span for span in spans.all if span.name == "generate")
    assert whole.attributes[semconv.CANCELLED] is True


def test_members_of_a_batch_that_breaks_are_errors(spans: Spans, tiny_chat: TinyChat) -> None:
    with running(tiny_chat, spans) as batch:
        with spans.recorder.tracer.start_as_current_span("request"):
            batch.add_request(PROMPT * 500, max_new_tokens=5)  # more than it has room for
        spans.wait_for(4)

    (whole,) = (span for span in spans.all if span.name == "generate")
    assert whole.attributes[semconv.ERROR_TYPE] == "GenerationFailed"
    assert whole.attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] == 0


def test_the_state_of_a_member_can_be_copied_and_sent(spans: Spans) -> None:
    member = Member(spans.recorder, None, 4)

    assert copy.deepcopy(member) is None
    assert pickle.loads(pickle.dumps(member)) is None  # noqa: S301 - our own


def told(spans: Spans, name: str, key: str) -> list[object]:
    return [span.attributes.get(key) for span in spans.all if span.name == name]


def test_members_that_must_make_room_tell_how_often(spans: Spans, tiny_chat: TinyChat) -> None:
    with running(tiny_chat, spans, num_blocks=4) as batch:
        for number in range(3):
            with spans.recorder.tracer.start_as_current_span(f"request {number}"):
                batch.add_request([*range(3, 33)], max_new_tokens=60)  # three blocks each
        spans.wait_for(3 * 5)

    preemptions = told(spans, "generate", semconv.PREEMPTIONS)
    assert len(preemptions) == 3
    assert sum(count for count in preemptions if isinstance(count, int)) > 0


def test_a_member_tells_how_many_waited_before_it(spans: Spans, batch: Any) -> None:
    with spans.recorder.tracer.start_as_current_span("request"):
        generated(batch)

    assert told(spans, "queue", semconv.QUEUE_DEPTH) == [0]
    assert told(spans, "generate", semconv.PREEMPTIONS) == [0]
