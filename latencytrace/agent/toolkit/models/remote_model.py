"""One call of a model behind an API, to the last token of its answer."""

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import wraps
from inspect import isasyncgen, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import GeneratorType
from typing import Any, Final, Self

from opentelemetry.trace import SpanKind, get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.timing.costs import HookCost, SampledCall
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.wrapping import named_arguments
from latencytrace.agent.toolkit.drops import when_dropped
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.other_tracers import is_theirs
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

# Attributes of another tracer's span that is the same call already.
_KINDS: Final = frozenset({"LLM", "EMBEDDING", "RERANKER"})
_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_END: Final = object()
_LONGEST: Final = 1 << 20  # bytes of a raw answer that is read for its tokens
_PEEKED: Final = 1  # chunks that a program may read to see whether there are any, to go on later


class ModelCall:
    """A call, until its answer or the last chunk of that is there.

    Args:
        stage: `remote_model`, or another that such an API serves.
        operation: The value of `gen_ai.operation.name`; empty: none is defined.
        attributes: What is known before it is made.
    """

    __slots__ = (
        "_began", "_form", "_last", "_on_fault", "_reported", "_said", "_seen_ns", "_timing",
        "_tokens", "sampled",
    )  # fmt: skip

    def __init__(
        self,
        recorder: Recorder,
        stage: Stage,
        operation: str,
        attributes: HookAttributes,
        form: AnswerForm,
    ) -> None:
        model = str(attributes.get(semconv.GEN_AI_REQUEST_MODEL, ""))
        name = f"{operation or stage} {model}".strip()
        named: HookAttributes = {semconv.GEN_AI_OPERATION_NAME: operation} if operation else {}
        self._on_fault = recorder.on_fault
        self._form = form
        self.sampled: SampledCall | None = None  # None: its cost is not measured
        self._timing: Timing = recorder.start(
            name, stage, {**named, **attributes}, kind=SpanKind.CLIENT
        )
        self._tokens = MadeTokens()
        self._began = False  # whether output has come
        self._said: HookAttributes = {}  # by the chunks so far
        self._reported: list[tuple[Stage, int]] = []  # what the other side did, and how long
        self._last: object = None  # chunk with output: it may say how many tokens there are
        self._seen_ns: int | None = None  # when something came last; None: it is not seen

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the call; what it raises ends it."""
        self._timing.activate()
        try:
            yield
        except BaseException as error:
            self._timing.deactivate()
            self.fail(error)
            raise
        self._timing.deactivate()

    def answered(self, answer: Any) -> Any:
        """Note an answer and end, a stream with its last chunk; return what the program gets."""
        return self._priced(self._answered, answer)

    def parsed(self, answer: Any) -> None:
        self._priced(self._parsed, answer)

    def note(self, chunk: Any) -> None:
        """Note a chunk: whether it has output, or else what it says of the answer."""
        self._priced(self._note, chunk)

    def end(self, ended_ns: int | None = None) -> None:
        """End the span at a monotonic time, or now; a second time changes nothing."""
        self._priced(self._end, ended_ns)

    def _priced(self, section: Callable[..., Any], *args: Any) -> Any:
        """Call a section, and add what it takes where the call is a sample."""
        return section(*args) if self.sampled is None else self.sampled.timed(section, *args)

    def _answered(self, answer: Any) -> Any:
        self._seen_ns = monotonic_ns()
        with guarded("describing an answer", self._on_fault):
            if isinstance(answer, GeneratorType):
                return _held_by(self.each(answer), self.drop)
            if isasyncgen(answer):
                return _held_by(self.each_awaited(answer), self.drop)
            if not (self._follows(answer) or self._follows_raw(answer)):
                self._describe(answer)
                self.end()
            return answer
        self.end()
        return answer

    def _parsed(self, answer: Any) -> None:
        self._seen_ns = monotonic_ns()
        if not self._follows(answer):
            self._describe(answer)
            self.end()

    def _follows(self, answer: Any) -> bool:
        """Follow a stream by the iterator inside, since the stream itself must stay what it is."""
        name, stream_in = self._form.iterator, self._form.stream_in
        stream = answer if stream_in is None else stream_in(answer)
        chunks = None if name is None else getattr(stream, name, None)
        if name is not None and chunks is not None:
            kind = _AwaitedReader if hasattr(chunks, "__anext__") else _Reader
            setattr(stream, name, kind(self, chunks))
        elif stream is None or stream_in is None:
            return False
        _open[stream] = self
        _held_by(stream, self.drop)
        return True

    def _follows_raw(self, answer: Any) -> bool:
        """Wait until a raw answer is parsed, or read in it what there is to note."""
        response = getattr(answer, "http_response", None)
        if response is None:
            return False
        is_stream = getattr(answer, "_stream", False)
        if is_stream or not response.is_closed:
            _open[answer] = self
            self._seen_ns = None  # the program may read the body itself
            _held_by(answer, self.drop if is_stream else self.end)
            return True
        if _is_short_json(response):
            self._describe(response.json())
        return False

    def _describe(self, answer: object) -> None:
        """Note what an answer or a chunk says of model, tokens and times."""
        self._said |= self._form.described(answer)
        self._reported = self._form.reported(answer) or self._reported

    def each(self, chunks: Any) -> Iterator[Any]:
        """Follow a stream to its end; some are sent for only by their first chunk's reader."""
        try:
            self._timing.activate()
            try:
                chunk = next(chunks, _END)
            finally:
                self._timing.deactivate()
            while chunk is not _END:
                self.note(chunk)
                yield chunk
                chunk = next(chunks, _END)
        except BaseException as error:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
            self.fail(error)
            raise
        self.end()

    async def each_awaited(self, chunks: Any) -> AsyncGenerator[Any, None]:
        try:
            self._timing.activate()
            try:
                chunk = await anext(chunks, _END)
            finally:
                self._timing.deactivate()
            while chunk is not _END:
                self.note(chunk)
                yield chunk
                chunk = await anext(chunks, _END)
        except BaseException as error:
            self.fail(error)
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()
            raise
        self.end()

    def _note(self, chunk: Any) -> None:
        try:
            self._seen_ns = now_ns = monotonic_ns()
            if self._form.chunk is not None:
                chunk = getattr(chunk, self._form.chunk, None)
            if not self._form.has_output(chunk):
                self._describe(chunk)
                return
            if not self._began:
                self._began = True
                waited_s = (now_ns - self._timing.started_ns) / 1e9
                self._timing.note({semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: waited_s})
            self._tokens.add(now_ns)
            self._last = chunk
        except FAULTS as fault:
            self._on_fault("noting a chunk", fault)

    def _end(self, ended_ns: int | None) -> None:
        ended_ns = monotonic_ns() if ended_ns is None else ended_ns
        with guarded("ending a model call", self._on_fault):
            last, self._last = self._last, None
            if self._timing.span.is_recording():
                if last is not None:
                    said, self._said = self._said, {}
                    self._describe(last)
                    self._said |= said
                self._timing.note(self._said)
                if self._reported:
                    self._note_reported(ended_ns)
                if self._began:
                    self._timing.note(self._tokens.described(self._timing.started_ns))
                self._timing.end(ended_ns)

    def _note_reported(self, ended_ns: int) -> None:
        """Place what the other side says that it did, one after the other up to the end."""
        intervals, started_ns = self._timing.collect_intervals(), self._timing.started_ns
        for stage, length_ns in reversed(self._reported):
            began_ns = max(ended_ns - length_ns, started_ns)
            intervals.add(stage, began_ns, ended_ns)
            ended_ns = began_ns

    def fail(self, error: BaseException) -> None:
        """Note what the call or the reading of its stream raised, and end it."""
        with guarded("noting an exception", self._on_fault):
            self._timing.fail(error)
        # End an abandoned stream at its last chunk, however late it is known.
        self.end(self._seen_ns if isinstance(error, GeneratorExit) else None)

    def drop(self) -> None:
        """End a stream that was closed or dropped before its last chunk."""
        self.fail(GeneratorExit())


class _Followed:
    """Chunks of a stream, in the place of what its library reads them from.

    A library's stream refers to itself, so that only the collector of garbage finds one that the
    program left half-way, perhaps after its request. But each loop over it has a reader of its
    own, which goes when the loop is left.

    It is no generator: an event loop closes each async one that the collector finds, and code that
    closed the library's own would be in its way.
    """

    __slots__ = ("_asked", "_call", "_chunks")

    def __init__(self, call: ModelCall, chunks: Any) -> None:
        self._call = call
        self._chunks = chunks
        self._asked = 0

    def __del__(self) -> None:
        if self._asked > _PEEKED:
            self._call.drop()


class _Reader(_Followed):
    """The chunks of a plain stream."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return type(self)(self._call, self._chunks)

    def __next__(self) -> Any:
        self._asked += 1
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self._call.end()
            raise
        except BaseException as error:
            self._call.fail(error)
            raise
        self._call.note(chunk)
        return chunk

    def close(self) -> None:
        """End the stream."""
        self._chunks.close()
        self._call.drop()


class _AwaitedReader(_Followed):
    """Those of an async one."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return type(self)(self._call, self._chunks)

    async def __anext__(self) -> Any:
        self._asked += 1
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._call.end()
            raise
        except BaseException as error:
            self._call.fail(error)
            raise
        self._call.note(chunk)
        return chunk

    async def aclose(self) -> None:
        """End the stream."""
        await self._chunks.aclose()
        self._call.drop()


_open: weakref.WeakKeyDictionary[Any, ModelCall] = weakref.WeakKeyDictionary()


def _is_short_json(response: Any) -> bool:
    kind = response.headers.get("content-type", "")
    return len(response.content) <= _LONGEST and "json" in kind


def _held_by(stream: Any, end: Callable[[], None]) -> Any:
    """End a call at the latest when the program drops its stream."""
    when_dropped(stream, end)
    return stream


def note_closed(_: Recorder, arguments: Arguments, __: object) -> None:
    """End the call of a stream that was closed."""
    call = _open.pop(arguments["self"], None)
    if call is not None:
        call.drop()


def note_parsed(_: Recorder, arguments: Arguments, answer: object) -> None:
    """Follow the stream that a raw answer was parsed into."""
    call = _open.pop(arguments["self"], None)
    if call is not None:
        call.parsed(answer)


def open_call(stream: object) -> ModelCall | None:
    """Return the call that a stream belongs to; None: it has ended, or was not timed."""
    return _open.get(stream)


Begin = Callable[[tuple[Any, ...], dict[str, Any]], ModelCall | None]


def timed_model_calls(
    begin: Callable[[Recorder, Arguments], ModelCall | None],
    *,
    is_async: bool = False,
    below: Callable[[Arguments], object] | None = None,
) -> Callable[[Recorder, Timed], Timed]:
    """Build what times a method that calls a model: plain, async, or a generator of its chunks.

    Args:
        begin: Begins to time a call; None: it is none of a model.
        is_async: What the method returns is awaited: a decorated one does not look like it.
        below: The library's function beneath it, which another instrumentation may have wrapped.
    """

    def build(recorder: Recorder, original: Timed) -> Timed:
        arguments_of, cost = named_arguments(original), HookCost()

        def begun(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelCall | None:
            if recorder.suppressed():
                return None
            arguments = arguments_of(args, kwargs)
            if is_traced(original, below and below(arguments)):
                return None
            return begin(recorder, arguments)

        def began(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelCall | None:
            with guarded("starting a model call", recorder.on_fault):
                left = cost.left = cost.left - 1
                if left > 0:
                    return begun(args, kwargs)
                sampled = cost.sample(begun, args, kwargs)  # which the call itself knows
                call: ModelCall | None = None if sampled is None else sampled.call
                return call
            return None

        if isgeneratorfunction(original) or isasyncgenfunction(original):
            return _streamed(original, began)
        return _answered(original, began, is_async=is_async or iscoroutinefunction(original))

    return build


def _answered(original: Timed, begin: Begin, *, is_async: bool) -> Timed:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        timed = begin(args, kwargs)
        if timed is None:
            return await original(*args, **kwargs)
        with timed.made():
            answer = await original(*args, **kwargs)
        return timed.answered(answer)

    if iscoroutinefunction(original):
        return wraps(original)(awaited)

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_async:
            return awaited(*args, **kwargs)
        timed = begin(args, kwargs)
        if timed is None:
            return original(*args, **kwargs)
        with timed.made():
            answer = original(*args, **kwargs)
        return timed.answered(answer)

    return call


def _streamed(original: Timed, begin: Begin) -> Timed:
    """Time a generator from its first chunk's reading, which is when it is sent."""

    @wraps(original)
    def stream(*args: Any, **kwargs: Any) -> Iterator[Any]:
        timed, chunks = begin(args, kwargs), original(*args, **kwargs)
        yield from chunks if timed is None else timed.each(chunks)

    @wraps(original)
    async def async_stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        timed, chunks = begin(args, kwargs), original(*args, **kwargs)
        async with aclosing(chunks if timed is None else timed.each_awaited(chunks)) as each:
            async for chunk in each:
                yield chunk

    return async_stream if isasyncgenfunction(original) else stream


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
    return any(map(is_theirs, functions))
