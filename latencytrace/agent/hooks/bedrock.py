"""Calls of Amazon Bedrock with `botocore`, and so with `boto3`; and with `aiobotocore`."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from opentelemetry.trace import get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.models.model_api import ModelApi, first_at
from latencytrace.agent.toolkit.models.remote_model import (
    ModelCall,
    note_closed,
    open_call,
    timed_model_calls,
)
from latencytrace.model.stage import Stage

_STREAMS = "botocore.eventstream"
_CALLS: Final = {  # `gen_ai.operation.name` and stage, by service and operation
    ("bedrock-runtime", "Converse"): ("chat", Stage.REMOTE_MODEL),
    ("bedrock-runtime", "ConverseStream"): ("chat", Stage.REMOTE_MODEL),
    ("bedrock-runtime", "InvokeModel"): ("text_completion", Stage.REMOTE_MODEL),
    ("bedrock-runtime", "InvokeModelWithResponseStream"): ("text_completion", Stage.REMOTE_MODEL),
    ("bedrock-runtime", "ApplyGuardrail"): ("", Stage.GUARDRAIL),
    ("bedrock-agent-runtime", "Retrieve"): ("", Stage.RETRIEVE),
    ("bedrock-agent-runtime", "Rerank"): ("", Stage.RERANK),
}
_EMBEDS: Final = "embed"  # in the name of a model, which is invoked like any other


def _stream_in(answer: Any) -> Any:
    """Find the events in an answer; a body in one piece is the program's to read."""
    found = (answer.get(name) for name in ("stream", "body"))
    return next((each for each in found if hasattr(each, "get_initial_response")), None)


_USAGES = ("usage", "metadata.usage")
_API = ModelApi(
    provider="aws.bedrock",
    url="self.meta.endpoint_url",
    model=("api_params.modelId",),
    form=AnswerForm(
        model=(),
        input_tokens=(
            *(f"{usage}.inputTokens" for usage in _USAGES),
            "ResponseMetadata.HTTPHeaders.x-amzn-bedrock-input-token-count",
        ),
        input_parts=tuple(
            f"{usage}.cache{part}InputTokens" for usage in _USAGES for part in ("Read", "Write")
        ),
        output_tokens=(
            *(f"{usage}.outputTokens" for usage in _USAGES),
            "ResponseMetadata.HTTPHeaders.x-amzn-bedrock-output-token-count",
        ),
        cached_tokens=tuple(f"{usage}.cacheReadInputTokens" for usage in _USAGES),
        reasons=("stopReason", "messageStop.stopReason"),
        output=("contentBlockDelta.delta", "chunk.bytes"),
        stream_in=_stream_in,
    ),
)


def _begin(recorder: Recorder, arguments: Arguments) -> ModelCall | None:
    service = first_at(arguments, ("self._service_model.service_name",))
    operation, stage = _CALLS.get((service, str(arguments["operation_name"])), ("", None))
    if stage is None or recorder.inside(stage):
        return None
    model = first_at(arguments, _API.model)
    if operation == "text_completion" and _EMBEDS in str(model):
        operation, stage = "embeddings", Stage.EMBED
    return ModelCall(recorder, stage, operation, _API.describe(arguments, stage), _API.form)


def time_events(_: Recorder, original: Timed) -> Timed:
    """Note the events of a stream as the program reads them."""

    @wraps(original)
    def events(self: Any) -> Iterator[Any]:
        call, chunks = open_call(self), original(self)
        yield from chunks if call is None else call.each(chunks)

    return events


def time_awaited_events(_: Recorder, original: Timed) -> Timed:
    """Note those of aiobotocore's stream."""

    @wraps(original)
    async def events(self: Any) -> AsyncIterator[Any]:
        call, chunks = open_call(self), original(self)
        async with aclosing(chunks if call is None else call.each_awaited(chunks)) as each:
            async for event in each:
                yield event

    return events


def time_back_off(recorder: Recorder, original: Timed) -> Timed:
    """Note the wait before a request is made again, which lies in the question whether it is."""

    def note(again: object, asked_ns: int) -> None:
        with guarded("noting a wait", recorder.on_fault):
            if again and get_current_span().is_recording():
                recorder.start("back_off", Stage.RETRY, started_ns=asked_ns).end()

    @wraps(original)
    def needs_retry(*args: Any, **kwargs: Any) -> Any:
        asked_ns = monotonic_ns()
        again = original(*args, **kwargs)
        note(again, asked_ns)
        return again

    @wraps(original)
    async def aio_needs_retry(*args: Any, **kwargs: Any) -> Any:
        asked_ns = monotonic_ns()
        again = await original(*args, **kwargs)
        note(again, asked_ns)
        return again

    return aio_needs_retry if iscoroutinefunction(original) else needs_retry


class BedrockHook(Hook):
    """Times the one method that all operations go through, where they ask a model."""

    requires = ("botocore >= 1.34",)
    patches = (
        Replacement("botocore.client", "BaseClient._make_api_call", timed_model_calls(_begin)),
        Replacement(_STREAMS, "EventStream.__iter__", time_events),
        Replacement(_STREAMS, "EventStream.close", after("closing a stream", note_closed)),
        Replacement("botocore.endpoint", "Endpoint._needs_retry", time_back_off),
        Replacement(
            "aiobotocore.client", "AioBaseClient._make_api_call", timed_model_calls(_begin)
        ),
        Replacement("aiobotocore.eventstream", "AioEventStream.__anext__", time_awaited_events),
        Replacement("aiobotocore.endpoint", "AioEndpoint._needs_retry", time_back_off),
    )
