"""Trace requests that are valid OTLP, or nearly, and that nobody expects.

Any field is absent, empty, extreme or repeated, in any order; texts have any characters; the
same seed makes the same request.
"""

import time
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.model import semconv

TEXTS: Final = (
    "", " ", "\t\n", "\u200b", "\u3164", "\u202eevil", "\x00", "\x1b[2J", "{{ x }}", "{{", "%s",
    "$a", "GET /{{ path }}", "GET /chat/17?q=1", "?q=1", "POST /chat", "rag", "emp ", "é" * 40,
    "日本語🙂", "a" * 300, "1", "null", "llm_request", "ai.streamText", "request",
    "<b>", "' OR 1=1 --", "chat", "0" * 2000,
)  # fmt: skip
KEYS: Final = (
    semconv.SERVICE_NAME, semconv.SERVICE_INSTANCE_ID, semconv.HOST_NAME, semconv.STAGE,
    semconv.HTTP_ROUTE, semconv.HTTP_REQUEST_METHOD, semconv.HTTP_RESPONSE_STATUS_CODE,
    semconv.GEN_AI_REQUEST_MODEL, semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_OPERATION_NAME, semconv.INTERVALS,
    semconv.TOKEN_TIMES, semconv.RUNTIME_GAPS, semconv.QUEUED_NS, semconv.SHARED,
    semconv.ERROR_TYPE, semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, "tenant", "", " ",
    "k" * 300,
)  # fmt: skip
NUMBERS: Final = (0, 1, -1, 7, 200, 503, 2**31, 2**63 - 1, -(2**63), 10**15)
DOUBLES: Final = (0.0, -0.0, 0.01, 1e308, -1e-308, float("nan"), float("inf"), float("-inf"))
BAD: Final = b"\xc3\x28"  # no UTF-8; in the place of a text of two bytes
_PLACE = "\u0101"
_WITH_BAD: Final = (*TEXTS, _PLACE, f"a{_PLACE}b")
_SCOPES = ("", "ai", "vllm", "litellm", "strands.x", "made up")
_DEEPEST = 5  # lists in lists


class OddRequests:
    """Makes one request after the other.

    Args:
        seed: The same makes the same.
        now_ns: The time that plausible spans lie around.
    """

    def __init__(self, seed: int, now_ns: int | None = None) -> None:
        self.random = Random(seed)
        self.now_ns = time.time_ns() if now_ns is None else now_ns
        self._traces = [self.random.randbytes(16) for _ in range(6)]
        self._spans = [self.random.randbytes(8) for _ in range(12)]

    def request(self) -> ExportTraceServiceRequest:
        """A request that can be written as JSON, too."""
        found = ExportTraceServiceRequest()
        for _ in range(self.random.choice((1, 1, 2, 3))):
            resource = found.resource_spans.add()
            self._fill(resource, 0)
            for scope in resource.scope_spans:
                if self.random.random() < 0.7:
                    scope.scope.name = self.random.choice(_SCOPES)
                for span in scope.spans:
                    self._identify(span)
        return found

    def encoded(self, request: ExportTraceServiceRequest) -> bytes:
        """Its bytes: resources in any order, some texts no UTF-8, fields that nobody knows."""
        parts = [
            ExportTraceServiceRequest(resource_spans=[one]).SerializeToString()
            for one in request.resource_spans
        ]
        self.random.shuffle(parts)
        if self.random.random() < 0.2:
            parts.append(b"\xf8\x07\x01")  # field 127
        return b"".join(parts).replace(_PLACE.encode(), BAD)

    def _identify(self, span: Any) -> None:
        span.trace_id = self.random.choice(self._traces)
        span.span_id = self.random.choice(self._spans)
        if self.random.random() < 0.6:
            span.parent_span_id = self.random.choice((*self._spans, b"", bytes(8), b"x"))
        else:
            span.ClearField("parent_span_id")
        if self.random.random() < 0.05:
            span.trace_id = self.random.choice((b"", bytes(16), b"short"))
        start_ns = self.now_ns - self.random.randrange(60 * 10**9)
        start_ns = self.random.choice((start_ns,) * 6 + (0, 1, 2**63, 2**64 - 1, self.now_ns * 2))
        span.start_time_unix_nano = start_ns
        end_ns = start_ns + self.random.choice((0, 1, 10**6, 10**9, 10**10, -1, -(10**9)))
        end_ns = self.random.choice((end_ns,) * 6 + (0, self.now_ns, 2**64 - 1))
        span.end_time_unix_nano = min(max(end_ns, 0), 2**64 - 1)

    def _fill(self, message: Message, depth: int) -> None:
        fields: Sequence[Any] = list(message.DESCRIPTOR.fields)
        oneof = {f.containing_oneof.name: f for f in self._shuffled(fields) if f.containing_oneof}
        for one in fields:
            if one.containing_oneof and oneof[one.containing_oneof.name] is not one:
                continue
            if self.random.random() < 0.15 and depth > 2:
                continue
            if one.is_repeated:
                for _ in range(self._count(one)):
                    self._add(message, one, depth)
            elif one.message_type is not None:
                if depth < 5 + _DEEPEST:
                    self._fill(getattr(message, one.name), depth + 1)
                    getattr(message, one.name).SetInParent()
            else:
                setattr(message, one.name, self._scalar(one))

    def _add(self, message: Message, one: Any, depth: int) -> None:
        values = getattr(message, one.name)
        if one.message_type is None:
            values.append(self._scalar(one))
        elif depth < 5 + _DEEPEST:
            self._fill(values.add(), depth + 1)

    def _count(self, one: Any) -> int:
        if one.name == "entity_refs":
            return 0
        most = {"spans": 5, "attributes": 5, "events": 2, "links": 2}.get(one.name, 1)
        return self.random.randint(1 if one.name == "scope_spans" else 0, most)

    def _scalar(self, one: Any) -> object:
        choices: dict[int, Sequence[object]] = {
            FieldDescriptor.TYPE_STRING: KEYS if one.name == "key" else _WITH_BAD,
            FieldDescriptor.TYPE_BYTES: [self.random.randbytes(size) for size in (0, 1, 8, 16)],
            FieldDescriptor.TYPE_BOOL: (False, True),
            FieldDescriptor.TYPE_DOUBLE: DOUBLES,
            FieldDescriptor.TYPE_ENUM: (0, 1, 2, 3, 4, 5, 99, -1),
            FieldDescriptor.TYPE_INT64: NUMBERS,
            FieldDescriptor.TYPE_INT32: (0, 1, -1, 2**31 - 1),
        }
        return self.random.choice(choices.get(one.type, (0, 1, 2**31 - 1)))

    def _shuffled(self, fields: Sequence[Any]) -> Sequence[Any]:
        return self.random.sample(list(fields), len(fields))
