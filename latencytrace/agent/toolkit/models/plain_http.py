"""Models that a program asks over HTTP without a client library of theirs.

A call to one of the paths that model servers have in common gets a span around the one of HTTP:
which model is asked, and what its answer says of itself as it is read. A server that traces itself
keeps its part: the span of HTTP within is `network` then.
"""

import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import GeneratorType
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import StatusCode

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import FAULTS, guarded
from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.answer_events import AnswerEvents
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.models.remote_model import ModelCall, is_traced
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_CHAT, _TEXT, _EMBED, _OTHER = "chat", "text_completion", "embeddings", ""
_MODELS: Final = (Stage.REMOTE_MODEL, Stage.EMBED, Stage.RERANK, Stage.GUARDRAIL)

# By the last segment of a path, which is all that is looked at of most calls.
_PATHS: Final[Mapping[str, tuple[re.Pattern[str], Stage, str]]] = {
    last: (re.compile(pattern), stage, operation)
    for last, pattern, stage, operation in (
        ("completions", r".*/v\d+/chat/completions", Stage.REMOTE_MODEL, _CHAT),
        ("responses", r".*/v\d+/responses", Stage.REMOTE_MODEL, _CHAT),
        ("embeddings", r".*/v\d+/embeddings|/api/embeddings", Stage.EMBED, _EMBED),
        ("embed", r"/embed|/api/embed", Stage.EMBED, _EMBED),
        ("rerank", r".*/v\d+/rerank|/rerank", Stage.RERANK, _OTHER),
        ("chat", r"/api/chat", Stage.REMOTE_MODEL, _CHAT),
        ("generate", r"/api/generate|/generate", Stage.REMOTE_MODEL, _TEXT),
        ("generate_stream", r"/generate_stream", Stage.REMOTE_MODEL, _TEXT),
        ("infer", r".*/v2/models/([^/]+)(?:/versions/[^/]+)?/infer", Stage.REMOTE_MODEL, _OTHER),
        ("invocations", r"/invocations", Stage.REMOTE_MODEL, _OTHER),
    )
}
_COMPLETIONS: Final = re.compile(r".*/v\d+/completions")
_PREDICTIONS: Final = re.compile(r"/predictions/([^/]+)(?:/[^/]+)?")

# Keys of JSON: within a text their quotes would be escaped.
_NAME: Final = rb'"\s*:\s*"([^"\\]{1,200})"'
_COUNT: Final = rb'"\s*:\s*(\d{1,12})\b'
_ASKED_MODEL: Final = re.compile(rb'\s*\{[^{}\[\]]*?"model' + _NAME)  # before anything nested
_MODEL: Final = re.compile(rb'"model(?:_name)?' + _NAME)
_REASON: Final = re.compile(rb'"(?:finish_reason|done_reason|stop_reason)' + _NAME)
_COUNTS: Final = tuple(
    (key, re.compile(rb'"(?:' + names + rb")" + _COUNT))
    for key, names in (
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, rb"prompt_tokens|input_tokens|prompt_eval_count"),
        (
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
            rb"completion_tokens|output_tokens|eval_count|generated_tokens",
        ),
        (semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS, rb"cached_tokens"),
    )
)
_TIMES: Final = tuple(
    (stage, re.compile(rb'"' + name + _COUNT))
    for stage, name in (
        (Stage.LOAD, rb"load_duration"),
        (Stage.PREFILL, rb"prompt_eval_duration"),
        (Stage.DECODE, rb"eval_duration"),
    )
)
_FIRST_ERROR: Final = 400
_LONGEST_EVENT: Final = 1 << 16  # bytes
_ENDS: Final = 2048  # bytes of an answer in one piece that are looked at, at either end


def model_asked(
    recorder: Recorder, attributes: HookAttributes, body: object
) -> "PlainModelCall | None":
    """Begin to time a call of a model by its path; None: it is none, or timed already.

    Args:
        body: Of the request, as the program gave it: bytes, text, or a document.
    """
    path: Any = attributes.get(semconv.URL_PATH, "")  # gRPC has none
    last = path[path.rfind("/") + 1 :]
    if last not in _PATHS and path[:13] != "/predictions/":
        return None
    found = _found(path, last)
    if found is None or attributes[semconv.HTTP_REQUEST_METHOD] != "POST":
        return None
    if recorder.inside(*_MODELS) or is_traced():
        return None
    stage, operation, model = found
    model = model or _asked_for(body)
    noted: HookAttributes = {semconv.GEN_AI_REQUEST_MODEL: model} if model else {}
    for key in (semconv.SERVER_ADDRESS, semconv.SERVER_PORT):
        noted[key] = attributes[key]
    return PlainModelCall(recorder, stage, operation, noted)


def _found(path: str, last: str) -> tuple[Stage, str, str | None] | None:
    """Return stage, operation and model that a path names."""
    if last in _PATHS:
        pattern, stage, operation = _PATHS[last]
        match = pattern.fullmatch(path)
        if match is not None:
            return stage, operation, match[1] if match.groups() else None
        is_text = last == "completions" and _COMPLETIONS.fullmatch(path) is not None
        return (Stage.REMOTE_MODEL, _TEXT, None) if is_text else None
    match = _PREDICTIONS.fullmatch(path)
    return None if match is None else (Stage.REMOTE_MODEL, _OTHER, match[1])


def _asked_for(body: object) -> str | None:
    """Return the model that a request names."""
    if isinstance(body, Mapping):
        named = body.get("model")
        return named if isinstance(named, str) else None
    if isinstance(body, str):
        body = body[:_ENDS].encode()
    match = _ASKED_MODEL.match(body[:_ENDS]) if isinstance(body, (bytes, bytearray)) else None
    return None if match is None else match[1].decode("utf-8", "replace")


class _Bytes(AnswerForm):
    """Reads an answer's bytes, which are never parsed: there may be a chunk a token."""

    def described(self, answer: object) -> HookAttributes:
        """Note model, tokens and finish reason, never what is in it."""
        noted: HookAttributes = {}
        if not isinstance(answer, bytes):
            return noted
        model = _MODEL.search(answer)
        if model is not None:
            noted[semconv.GEN_AI_RESPONSE_MODEL] = model[1].decode("utf-8", "replace")
        for key, pattern in _COUNTS:
            counts = pattern.findall(answer)
            if counts:
                noted[key] = int(counts[-1])
        reasons = _REASON.findall(answer)
        if reasons:
            texts = tuple(reason.decode("utf-8", "replace") for reason in reasons)
            noted[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = texts
        return noted

    def reported(self, answer: object) -> list[tuple[Stage, int]]:
        """Return what Ollama did, and for how many nanoseconds."""
        if not isinstance(answer, bytes) or b'_duration"' not in answer:
            return []
        lengths = ((stage, pattern.search(answer)) for stage, pattern in _TIMES)
        return [(stage, int(length[1])) for stage, length in lengths if length]


_FORM: Final = _Bytes()


class PlainModelCall(ModelCall):
    """A call of a model over plain HTTP, until the last byte of its answer is read.

    Of an answer in one piece no more than its two ends are looked at, once it is there.
    """

    __slots__ = ("_ended_ns", "_events", "_head", "_is_read", "_is_text", "_rest", "_tail")

    def __init__(
        self, recorder: Recorder, stage: Stage, operation: str, attributes: HookAttributes
    ) -> None:
        super().__init__(recorder, stage, operation, attributes, _FORM)
        self._events: AnswerEvents | None = None  # None: not an answer of events
        self._rest = b""  # of an event that is not whole yet
        self._is_read = False  # the program is about to have a part of it
        self._ended_ns: int | None = None
        self._is_text = False  # any byte of it is output
        self._head: bytes | None = None  # of an answer in one piece; None: it is no JSON
        self._tail = b""

    def context(self) -> Context:
        """Return the current context with the call's span in it."""
        return self._timing.context()

    def answers(self, status: int, headers: Mapping[str, str]) -> None:
        """Note how an answer begins."""
        if status >= _FIRST_ERROR:
            self._timing.note({semconv.ERROR_TYPE: str(status)})
            self._timing.span.set_status(StatusCode.ERROR)
            return
        given = {name.lower(): str(value) for name, value in headers.items()}
        content_type = given.get("content-type", "")
        if given.get("content-encoding", "identity").lower() != "identity":
            return
        events = AnswerEvents(content_type.encode("latin-1", "replace"))
        if not events.plain:
            self._events = events
        elif "json" in content_type:
            self._head = b""
        else:
            self._is_text = "content-length" not in given

    def failed(self, error: BaseException) -> None:
        """Note what the call or the reading of its body raised."""
        self._timing.fail(error)

    def reads(self, body: Any) -> None:
        """Note what the program reads of a body."""
        for name in ("read", "read1", "readline", "read_chunked"):
            if hasattr(body, name):
                setattr(body, name, self._noting(weakref.ref(body), getattr(type(body), name)))

    def _noting(self, body: Callable[[], Any], read: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of a body, which must not hold it: it may be dropped half-read."""

        @wraps(read)
        def noting(*args: Any, **kwargs: Any) -> Any:
            if self._is_read:  # by another of its own methods
                return read(body(), *args, **kwargs)
            self._is_read = True  # the exchange may end within, before it is known what came
            try:
                found = read(body(), *args, **kwargs)
                if isinstance(found, bytes):
                    self.part(found)
            finally:
                self._is_read = False
                if self._ended_ns is not None:
                    self.end(self._ended_ns)
            return self.each_part(found) if isinstance(found, GeneratorType) else found

        return noting

    def each_part(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Note each part of a body as it is read."""
        for part in parts:
            self.part(part)
            yield part

    def part(self, body: bytes) -> None:
        """Note bytes of the answer, as they come."""
        try:
            if self._events is not None:
                self._chunk(body, self._events)
            elif self._head is not None:
                missing = _ENDS - len(self._head)
                self._head += body[:missing]
                self._tail = (self._tail + body[missing:][-_ENDS:])[-_ENDS:]
            elif self._is_text and body:
                self._made(1)
        except FAULTS as fault:
            self._on_fault("reading an answer", fault)

    def _chunk(self, body: bytes, events: AnswerEvents) -> None:
        """Read events whose last line is whole, and keep the rest until the next bytes come."""
        if self._rest or body[-1:] != b"\n":
            body = self._rest + body
            end = body.rfind(b"\n") + 1 if len(body) <= _LONGEST_EVENT else len(body)
            body, self._rest = body[:end], body[end:]
            if not body:
                return
        made = events.read(body)
        if made > 0:
            self._made(made)
        if (
            b'_tokens"' in body
            or b'_count"' in body
            or (b'_reason"' in body and _REASON.search(body) is not None)
            or semconv.GEN_AI_RESPONSE_MODEL not in self._said
        ):
            self._describe(body)

    def _made(self, tokens: int) -> None:
        """Note that so many tokens have come together."""
        now_ns = monotonic_ns()
        if not self._began:
            self._began = True
            waited_s = (now_ns - self._timing.started_ns) / 1e9
            self._timing.note({semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: waited_s})
        for _ in range(tokens):
            self._tokens.add(now_ns)

    def end(self, ended_ns: int | None = None) -> None:
        """End the span; a second time changes nothing."""
        if self._is_read:
            self._ended_ns = monotonic_ns()
            return
        head, self._head = self._head, None
        if head:
            with guarded("reading an answer", self._on_fault):
                self._describe(head + self._tail)
            self._tail = b""
        super().end(ended_ns)
