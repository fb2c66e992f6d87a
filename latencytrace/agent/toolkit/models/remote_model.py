"""One call of a model behind an API, to the last token of its answer.

What an answer says is read in the form of OpenAI's, which most APIs have.
"""

import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sized
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.wrapping import Call, named_arguments, timed
from latencytrace.agent.toolkit.calls import Build
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_INPUTS: Final = ("prompt_tokens", "input_tokens")
_OUTPUTS: Final = ("completion_tokens", "output_tokens")
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_MADE: Final = ("content", "tool_calls", "reasoning_content", "reasoning", "refusal")
# What a span of somebody else's says of itself that is the same call already.
_KINDS: Final = frozenset({"LLM", "EMBEDDING", "RERANKER"})
_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_INSTRUMENTORS: Final = (
    "opentelemetry.instrumentation.",
    "openinference.",
    "langfuse.",
    "logfire.",
)


class ModelCall(Call):
    """A call, until its answer or the last chunk of that is there.

    Args:
        recorder: Where its span goes.
        stage: `remote_model`, or another that such an API serves.
        operation: The value of `gen_ai.operation.name`; empty: none is defined.
        attributes: What is known before it is made.
    """

    __slots__ = ("_began", "_timed", "_tokens")

    def __init__(
        self, recorder: Recorder, stage: Stage, operation: str, attributes: HookAttributes
    ) -> None:
        model = str(attributes.get(semconv.GEN_AI_REQUEST_MODEL, ""))
        name = f"{operation or stage} {model}".strip()
        named: HookAttributes = {semconv.GEN_AI_OPERATION_NAME: operation} if operation else {}
        self._timed: Timing = recorder.start(
            name, stage, {**named, **attributes}, kind=SpanKind.CLIENT
        )
        self._tokens = MadeTokens()
        self._began = False  # whether output has come
        super().__init__(stage, self._timed, recorder.on_fault)

    def finish(self, result: object) -> None:
        """Note the answer and end; a stream ends the call with its last chunk."""
        with guarded("describing an answer", self._on_fault):
            if self._follows(result):
                return
            self._timed.note(answer_attributes(result))
        self.end(monotonic_ns())

    def end(self, ended_ns: int) -> None:
        """End the span; a second time changes nothing."""
        with guarded("describing a stream", self._on_fault):
            if self._began and self._timed.span.is_recording():
                self._timed.note(self._tokens.described(self._timed.started_ns))
        super().end(ended_ns)

    def drop(self) -> None:
        """End a stream that was closed or dropped before its last chunk."""
        self.fail(GeneratorExit())

    def _follows(self, answer: Any) -> bool:  # noqa: ANN401 - the library's
        """Follow a stream by the iterator inside, for the stream itself must stay what it is."""
        chunks = getattr(answer, "_iterator", None)
        if chunks is None:
            return False
        follow = self._each_awaited if hasattr(chunks, "__anext__") else self._each
        answer._iterator = follow(chunks)  # noqa: SLF001
        _streams[answer] = self
        weakref.finalize(answer, self.drop).atexit = False
        return True

    def _each(self, chunks: Any) -> Iterator[Any]:  # noqa: ANN401
        try:
            for chunk in chunks:
                self._note(chunk)
                yield chunk
        except BaseException as error:
            chunks.close()
            self.fail(error)
            raise
        self.end(monotonic_ns())

    async def _each_awaited(self, chunks: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        try:
            async for chunk in chunks:
                self._note(chunk)
                yield chunk
        except BaseException as error:
            self.fail(error)
            await chunks.aclose()
            raise
        self.end(monotonic_ns())

    def _note(self, chunk: Any) -> None:  # noqa: ANN401
        try:
            if has_output(chunk):
                now_ns = monotonic_ns()
                self._tokens.add(now_ns)
                if not self._began:
                    self._began = True
                    waited_s = (now_ns - self._timed.started_ns) / 1e9
                    self._timed.note({semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: waited_s})
            said = answer_attributes(getattr(chunk, "response", chunk))
            if said:
                self._timed.note(said)
        except FAULTS as fault:
            self._on_fault("noting a chunk", fault)


_streams: weakref.WeakKeyDictionary[Any, ModelCall] = weakref.WeakKeyDictionary()


def note_closed(_: Recorder, arguments: Arguments, __: object) -> None:
    """End the call of a stream that was closed."""
    call = _streams.pop(arguments["self"], None)
    if call is not None:
        call.drop()


def timed_model_calls(
    stage: Stage,
    operation: str,
    describe: Callable[[Arguments], HookAttributes],
    *,
    is_async: bool,
    below: Callable[[Arguments], object] | None = None,
) -> Build:
    """Build what times a method that calls a model.

    Args:
        stage: As in `ModelCall`.
        operation: As in `ModelCall`.
        describe: Attributes from the arguments.
        is_async: What the method returns is awaited: a decorated one does not look like it.
        below: The library's function beneath it, which another instrumentation may have wrapped.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        arguments_of = named_arguments(original)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelCall | None:
            with guarded("starting a model call", recorder.on_fault):
                if recorder.suppressed() or recorder.inside(stage):
                    return None
                arguments = arguments_of(args, kwargs)
                if not is_traced(original, below and below(arguments)):
                    return ModelCall(recorder, stage, operation, describe(arguments))
            return None

        if not is_async or iscoroutinefunction(original):
            return timed(original, begin)

        async def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return await original(*args, **kwargs)

        timed_call = timed(awaited, begin)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return timed_call(*args, **kwargs)

        return call

    return build


def is_traced(*functions: object) -> bool:
    """Say whether another instrumentation has a span of this call, or is about to make one."""
    current = get_current_span()
    said = getattr(current, "attributes", None) or {}
    if current.is_recording() and (
        said.get(semconv.OPENINFERENCE_SPAN_KIND) in _KINDS
        or semconv.TRACELOOP_REQUEST_TYPE in said
        or said.get(semconv.GEN_AI_OPERATION_NAME) in _OPERATIONS
    ):
        return True
    return any(map(_is_instrumentors, functions))


def _is_instrumentors(function: object) -> bool:
    """Say whether a function is one that an instrumentation has put in a library's place."""
    wrapper = getattr(function, "_self_wrapper", None)  # of wrapt
    module = getattr(wrapper, "__module__", None) or type(wrapper).__module__
    return str(module).startswith(_INSTRUMENTORS)


def answer_attributes(answer: Any) -> HookAttributes:  # noqa: ANN401 - the library's
    """Note model, tokens and finish reasons of an answer or a chunk, never what is in it."""
    noted: HookAttributes = {}
    model = getattr(answer, "model", None)
    if isinstance(model, str):
        noted[semconv.GEN_AI_RESPONSE_MODEL] = model
    usage = getattr(answer, "usage", None)
    if usage is not None:
        details = next((each for name in _DETAILS if (each := getattr(usage, name, None))), None)
        for key, count in (
            (semconv.GEN_AI_USAGE_INPUT_TOKENS, _count(usage, _INPUTS)),
            (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, _count(usage, _OUTPUTS)),
            (semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS, _count(details, ("cached_tokens",))),
        ):
            if count is not None:
                noted[key] = count
    choices = getattr(answer, "choices", None) or ()
    reasons = tuple(str(why) for each in choices if (why := getattr(each, "finish_reason", None)))
    if reasons:
        noted[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = reasons
    return noted


def has_output(chunk: Any) -> bool:  # noqa: ANN401
    """Say whether a chunk has a part of the output, and not a role or a count alone."""
    kind = getattr(chunk, "type", None)
    if isinstance(kind, str):  # an event of OpenAI's responses
        return kind.endswith(".delta")
    for choice in getattr(chunk, "choices", None) or ():
        delta = getattr(choice, "delta", None)
        if getattr(choice, "text", None) or any(getattr(delta, name, None) for name in _MADE):
            return True
    return False


def request_model_attributes(arguments: Arguments) -> HookAttributes:
    """Note which model is asked for, and how many inputs there are if there are several."""
    noted: HookAttributes = {}
    model, inputs = arguments.get("model"), arguments.get("input")
    if isinstance(model, str):
        noted[semconv.GEN_AI_REQUEST_MODEL] = model
    if isinstance(inputs, Sized) and not isinstance(inputs, str):
        noted[semconv.BATCH_SIZE] = len(inputs)
    return noted


def _count(usage: object, names: tuple[str, ...]) -> int | None:
    found = (getattr(usage, name, None) for name in names)
    return next((each for each in found if isinstance(each, int)), None)
