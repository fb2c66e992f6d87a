"""The load's own spans, one a request, sent as OTLP over HTTP while it runs.

They are the CLIENT side of each request, so that the service can attribute it end to end.
"""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.cli.load_test.exchange import error_kind
from latencytrace.cli.load_test.outcome import Outcome
from latencytrace.cli.load_test.record import SERVICE, SpansSent
from latencytrace.model import Stage, semconv

INTERVAL_S = 0.5
BATCH_SPANS = 512
MOST_WAITING = 20_000
LAST_ATTEMPT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The receiver that spans are posted to."""

    url: str
    headers: Mapping[str, str]
    timeout_s: float


class SpanSender:
    """Sends spans twice a second; spans that are not taken wait, up to a bound.

    Args:
        client: Not that of the load: its connections are measured.
        address: Address of every request; its query stays out of the spans.
    """

    def __init__(
        self, receiver: Receiver, client: aiohttp.ClientSession, method: str, address: str
    ) -> None:
        self.counts = SpansSent(url=receiver.url)
        self._receiver = receiver
        self._client = client
        self._waiting: list[Span] = []
        parts = urlsplit(address)
        self._name = f"{method} {parts.path or '/'}"
        self._attributes: dict[str, str | int] = {
            semconv.STAGE: Stage.NETWORK.value,
            semconv.HTTP_REQUEST_METHOD: method,
            semconv.URL_SCHEME: parts.scheme,
            semconv.URL_PATH: parts.path or "/",
            semconv.SERVER_ADDRESS: parts.hostname or "",
            semconv.SERVER_PORT: parts.port or (443 if parts.scheme == "https" else 80),
        }
        self._resource = {
            semconv.SERVICE_NAME: SERVICE,
            semconv.SERVICE_INSTANCE_ID: str(uuid4()),
            semconv.HOST_NAME: socket.gethostname(),
        }

    def add(self, outcome: Outcome) -> None:
        """Report one request, if it was sent at all."""
        if outcome.sent_ns is None or outcome.trace_id is None or outcome.span_id is None:
            return
        if len(self._waiting) >= MOST_WAITING:
            self.counts.lost += 1
            return
        self._waiting.append(self._span(outcome, outcome.sent_ns))

    async def run(self) -> None:
        """Send again and again, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self._send_waiting()

    async def close(self) -> None:
        """Send what is left; what cannot be sent now is lost."""
        try:
            async with asyncio.timeout(LAST_ATTEMPT_S):
                await self._send_waiting()
        except TimeoutError:
            self.counts.last_error = f"no answer within {LAST_ATTEMPT_S:g} s"
        self.counts.lost += len(self._waiting)
        self._waiting.clear()

    async def _send_waiting(self) -> None:
        while self._waiting:
            batch = self._waiting[:BATCH_SPANS]
            taken = await self._posted(batch)
            if not taken:
                return
            del self._waiting[: len(batch)]

    async def _posted(self, batch: list[Span]) -> bool:
        """Post these; return False if they are to be sent again."""
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add()
        spans.resource.attributes.extend(_pairs(self._resource))
        spans.scope_spans.append(ScopeSpans(spans=batch))
        try:
            async with self._client.post(
                self._receiver.url,
                data=request.SerializeToString(),
                headers={"content-type": "application/x-protobuf", **self._receiver.headers},
                timeout=aiohttp.ClientTimeout(total=self._receiver.timeout_s),
            ) as response:
                refused = _refused(await response.read()) if response.ok else len(batch)
                reason = f"{response.status} {response.reason}"
                later = response.status in {408, 429, 502, 503, 504}  # as OTLP says
        except (aiohttp.ClientError, TimeoutError) as error:
            self.counts.last_error = error_kind(error)
            return False
        if later:
            self.counts.last_error = reason
            return False
        if refused:
            self.counts.last_error = f"{reason}, {refused} spans refused"
        self.counts.lost += refused
        self.counts.sent += len(batch) - refused
        return True

    def _span(self, outcome: Outcome, sent_ns: int) -> Span:
        attributes: dict[str, str | int | float] = {**self._attributes}
        if outcome.status is not None:
            attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = outcome.status
        if outcome.error is not None:
            attributes[semconv.ERROR_TYPE] = outcome.error
        if outcome.answer is not None and outcome.answer.token_times_ns:
            first_ns = outcome.answer.token_times_ns[0] - sent_ns
            attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = first_ns / 1e9
        failed = outcome.error is not None
        return Span(
            trace_id=bytes.fromhex(outcome.trace_id or ""),
            span_id=bytes.fromhex(outcome.span_id or ""),
            name=self._name,
            kind=Span.SPAN_KIND_CLIENT,
            start_time_unix_nano=sent_ns + ANCHOR_NS,
            end_time_unix_nano=outcome.end_ns + ANCHOR_NS,
            attributes=_pairs(attributes),
            status=Status(code=Status.STATUS_CODE_ERROR if failed else Status.STATUS_CODE_UNSET),
        )


def _pairs(attributes: Mapping[str, str | int | float]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: str | float) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)


def _refused(body: bytes) -> int:
    """Return how many spans an answer of success refuses after all."""
    try:
        answer = ExportTraceServiceResponse.FromString(body)
    except DecodeError:
        return 0  # it answers in JSON, say, which is no reason to doubt its success
    return answer.partial_success.rejected_spans
