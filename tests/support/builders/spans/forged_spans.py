"""Odd spans of each kind, no two alike."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

BLANKS: Final = {ord("0"): " ", ord("1"): "\t"}
ALIKE: Final = "~~~~"  # four bytes in the place of which comes what is no UTF-8


class Forged(NamedTuple):
    """A span that differs from all others of its kind, and who sends it."""

    span: ProtoSpan
    service: str = "forger"


def span(number: int, name: str = "POST /forged", **attributes: str) -> ProtoSpan:
    start_ns = time.time_ns() - 10**9
    return ProtoSpan(
        trace_id=number.to_bytes(16, "big"),
        span_id=(number + 1).to_bytes(8, "big"),
        name=name,
        kind=ProtoSpan.SPAN_KIND_SERVER,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + 10**6,
        attributes=[text(key, value) for key, value in attributes.items()],
    )


def text(key: str, value: str) -> KeyValue:
    found = KeyValue(key=key)
    found.value.string_value = value
    return found


def absurd(number: int) -> Forged:
    found = span(number)
    found.start_time_unix_nano = number % 1000
    return Forged(found)


def of_totals(number: int) -> Forged:
    found = span(number, f"agent {number}")
    found.attributes.append(text("gen_ai.request.model", f"model-{number}"))
    found.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = number
    return Forged(found)


def shared(number: int) -> Forged:
    found = span(number // 2 * 2, f"half {number}")
    found.kind = ProtoSpan.SPAN_KIND_CLIENT if number % 2 else ProtoSpan.SPAN_KIND_SERVER
    return Forged(found, f"half-{number % 2}")


KINDS: Final[Mapping[str, Callable[[int], Forged]]] = {
    "texts": lambda number: Forged(span(number, f"GET /{ALIKE}{number}", key=f"{ALIKE}{number}")),
    "keys": lambda number: Forged(span(number, **{f"{ALIKE}{number}": "a"})),
    "names": lambda number: Forged(span(number, f"GET /{chr(0x4E00 + number)}")),
    "services": lambda number: Forged(span(number), f"{ALIKE}{number}"),
    "nameless": lambda number: Forged(span(number, f"{number:b}".translate(BLANKS))),
    "totals": of_totals,
    "ids": shared,
    "braces": lambda number: Forged(span(number, f"GET /{{{{ a{number} }}}}")),
    "times": absurd,
}


def moved(forged: Forged, place: int) -> Forged:
    """The same, in a trace that no other kind has."""
    forged.span.trace_id = bytes([place]) + forged.span.trace_id[1:]
    return forged


def body_of(forged: Iterable[Forged]) -> bytes:
    """A post of them."""
    request = ExportTraceServiceRequest()
    by_service: dict[str, ResourceSpans] = {}
    for one in forged:
        if one.service not in by_service:
            by_service[one.service] = resource = request.resource_spans.add()
            resource.resource.attributes.append(text("service.name", one.service))
            resource.scope_spans.add()
        by_service[one.service].scope_spans[0].spans.append(one.span)
    return request.SerializeToString().replace(ALIKE.encode(), b"\xff\xfe\xc3\x28")
