"""OTLP trace requests checked before they are stored, and the answers to their senders.

What it costs a span is said in `scanner`.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import Final, Self

import numpy as np
import orjson
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from latencytrace.errors import MediaTypeError, OtlpError
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.json import compiled_from_json, protobuf_from_json
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.messages import (
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    purify,
)
from latencytrace.service.otlp.scanner import scanned, scanned_by_core
from latencytrace.service.otlp.span_block import SpanBlock

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MAX_BYTES: Final = 64 * 1024 * 1024  # of one request, decompressed
MAX_MEMBERS: Final = 64  # of a gzip body: senders write one, files joined together have several

INVALID_ARGUMENT: Final = 3  # codes of google.rpc.Status
RESOURCE_EXHAUSTED: Final = 8
UNAVAILABLE: Final = 14


Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """A trace request that the store can take: its content is removed."""

    columns: SpanBlock  # its spans
    rows: Mapping[str, Rows]  # in `columns`, by trace id in lower-case hex
    rooted: frozenset[str]  # of these, the ones that got a span without parent or of kind SERVER
    mending: Mending = field(default_factory=Mending)

    @classmethod
    def of(cls, columns: SpanBlock, mending: Mending | None = None) -> Self:
        """The request with these spans, and what had to be mended in it."""
        rows, has_root = _by_trace(columns.trace_id, columns.rooted)
        rooted = frozenset(compress(rows, has_root))
        return cls(columns=columns, rows=rows, rooted=rooted, mending=mending or Mending())

    @property
    def span_count(self) -> int:
        """Return how many spans it has."""
        return self.columns.count

    @property
    def span_counts(self) -> Mapping[str, int]:
        """Return how many spans each trace has."""
        return {trace_id: len(rows) for trace_id, rows in self.rows.items()}

    @property
    def rejected_spans(self) -> int:
        """Return how many spans were left out, at least."""
        return self.columns.rejected + self.mending.lost_spans

    @property
    def reason(self) -> str | None:
        """Return why spans were left out; None: none were."""
        counted = ((self.columns.rejected, _NO_IDS), (self.mending.lost_spans, _TORN))
        return "; ".join(reason for count, reason in counted if count) or None

    @property
    def mended_services(self) -> frozenset[str]:
        """Return the services whose values had to be mended."""
        services = self.columns.resources["service"]
        return frozenset(
            self.columns.word(int(services[place])) for place in self.mending.resources
        )


def _by_trace(
    ids: NDArray[np.uint64], rooted: NDArray[np.bool_]
) -> tuple[dict[str, Rows], Sequence[bool]]:
    """The rows of each trace, in order; and whether one of them is rooted."""
    if not len(ids):
        return {}, ()
    if (ids == ids[0]).all():
        return {ids[0].astype(">u8").tobytes().hex(): np.arange(len(ids))}, [bool(rooted.any())]
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ordered = ids[order]
    first = np.flatnonzero(np.any(ordered[1:] != ordered[:-1], axis=1)) + 1
    digits = ordered[np.concatenate(([0], first))].astype(">u8").tobytes().hex()
    names = [digits[at : at + 32] for at in range(0, len(digits), 32)]
    edges = pairwise((0, *first.tolist(), len(order)))
    rows = {name: order[since:until] for name, (since, until) in zip(names, edges, strict=True)}
    has_root = np.logical_or.reduceat(rooted[order], np.concatenate(([0], first)))
    return rows, has_root.tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpAnswer:
    """The body of an HTTP answer to a sender, in the format he spoke."""

    body: bytes
    content_type: str


def check(
    body: bytes,
    content_type: str | None,
    content_encoding: str | None,
    *,
    capture_content: bool = False,
) -> CheckedRequest:
    """Check one `POST /v1/traces`, and take out of it what is content.

    Args:
        body: Body of the post, still compressed.
        content_type: The header; protobuf or JSON.
        content_encoding: The header; gzip, identity or None.
        capture_content: Keep prompts, texts and the like.

    Returns:
        The request without the spans whose ids are no ids; those are counted. Checking its
        block again changes nothing.

    Raises:
        OtlpError: Nothing of the body can be kept; the message says why.
    """
    plain = decompressed(body, content_encoding)
    mending = Mending()
    if media_type(content_type) == JSON:
        plain = protobuf_from_json(plain, mending)
    block = scanned(plain, capture_content=capture_content, mending=mending)
    return CheckedRequest.of(block, mending)


def check_together(
    bodies: Sequence[tuple[bytes, str | None]], *, capture_content: bool = False
) -> CheckedRequest | None:
    """Check several requests as one, which costs little more than one of them.

    Args:
        bodies: Not compressed, with their Content-Types.
        capture_content: Keep prompts, texts and the like.

    Returns:
        None: One of them is odd, or nothing is compiled: check each by itself.
    """
    requests = [
        compiled_from_json(body) if media_type(content_type) == JSON else body
        for body, content_type in bodies
    ]
    whole = [one for one in requests if one is not None]
    if len(whole) < len(requests):
        return None
    block = scanned_by_core(whole, capture_content=capture_content)
    return None if block is None or block.rejected else CheckedRequest.of(block)


def media_type(content_type: str | None) -> str:
    """Return which of the two formats of OTLP/HTTP a Content-Type names.

    Args:
        content_type: The header, empty where there is none; None: it did not come over HTTP,
            and is protobuf.

    Raises:
        MediaTypeError: Neither. A page in a browser can post without one, or with one of a
            form, to any address and unasked.
    """
    if content_type is None:
        return PROTOBUF
    named = content_type.partition(";")[0].strip().lower()
    if not named:
        raise MediaTypeError(f"there is no Content-Type: send {PROTOBUF} or {JSON}")
    if named not in {PROTOBUF, JSON}:
        raise MediaTypeError(f"Content-Type {content_type!r} is neither {PROTOBUF} nor {JSON}")
    return named


def acceptance(checked: CheckedRequest, content_type: str | None) -> OtlpAnswer:
    """The answer to a request that was kept, with what was rejected of it."""
    response = ExportTraceServiceResponse()
    if checked.rejected_spans:
        response.partial_success.rejected_spans = checked.rejected_spans
        response.partial_success.error_message = checked.reason or ""
    return answer(response, content_type)


def refusal(message: str, code: int, content_type: str | None) -> OtlpAnswer:
    """The answer to a request that was not kept.

    Args:
        message: What is wrong and what to do.
        code: Of `google.rpc.Status`: INVALID_ARGUMENT and the like.
        content_type: What the sender spoke; anything unknown is answered in protobuf.
    """
    return answer(Status(code=code, message=message), content_type)


def answer(message: Message, content_type: str | None) -> OtlpAnswer:
    """A message of OTLP's as the body of an answer."""
    if (content_type or "").partition(";")[0].strip().lower() == JSON:
        return OtlpAnswer(body=orjson.dumps(json_format.MessageToDict(message)), content_type=JSON)
    return OtlpAnswer(body=message.SerializeToString(), content_type=PROTOBUF)


def check_message(
    message: ExportTraceServiceRequest,
    *,
    capture_content: bool = False,
    mending: Mending | None = None,
) -> CheckedRequest:
    """Check a request that is decoded already.

    Args:
        message: Loses its content.
        mending: What had to be mended in it.

    Raises:
        OtlpError: It has more parts than any batch of spans.
    """
    purify(message, capture_content=capture_content)
    return CheckedRequest.of(span_block_of(message), mending)


_NO_IDS = (
    f"a trace id needs {TRACE_ID_BYTES} bytes and a span id {SPAN_ID_BYTES}, not all of them 0"
)
_TORN = "the request is torn: a length goes beyond the end of what it is in, or a span is none"


def decompressed(body: bytes, content_encoding: str | None) -> bytes:
    """A body as it was before it was compressed.

    Raises:
        OtlpError: It is compressed otherwise, torn or too large.
    """
    encoding = (content_encoding or "identity").strip().lower()
    if encoding == "gzip":
        return _gunzipped(body)
    if encoding != "identity":
        raise OtlpError(f"Content-Encoding {content_encoding!r} is not known: use gzip or none")
    if len(body) > MAX_BYTES:
        raise OtlpError(_TOO_LARGE)
    return body


def decompressed_if_short(body: bytes, content_encoding: str | None, most: int) -> bytes | None:
    """Return a body as it was before it was compressed; None: it has more than `most` bytes.

    Raises:
        OtlpError: It is compressed otherwise, or torn.
    """
    if len(body) > most:
        return None
    if (content_encoding or "").strip().lower() == "gzip":
        return _inflated(body, most)
    return decompressed(body, content_encoding)


_TOO_LARGE = f"the request has more than {MAX_BYTES} bytes: send smaller batches"
_TOO_MANY_MEMBERS = f"the gzip body has more than {MAX_MEMBERS} members: compress it as one"
_PIECE_BYTES = 64 * 1024  # what follows a member in its last piece is copied


def _gunzipped(body: bytes) -> bytes:
    plain = _inflated(body, MAX_BYTES)
    if plain is None:
        raise OtlpError(_TOO_LARGE)
    return plain


def _inflated(body: bytes, most: int) -> bytes | None:
    """Return the members of a gzip file, joined; None: they have more than `most` bytes.

    It takes time in proportion to the body and to `most`, whatever the body holds.
    """
    view = memoryview(body)
    parts: list[bytes] = []
    left = most
    for _ in range(MAX_MEMBERS):
        if not view:
            return b"".join(parts)
        inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: with gzip's header
        while not inflater.eof:
            if not view:
                raise OtlpError("the gzip body ends too early")
            try:
                part = inflater.decompress(view[:_PIECE_BYTES], left + 1)
            except zlib.error as error:
                raise OtlpError(f"the body is not gzip: {error}") from None
            left -= len(part)
            if left < 0:
                return None
            parts.append(part)
            view = view[_PIECE_BYTES:]
        view = memoryview(body)[len(body) - len(view) - len(inflater.unused_data) :]
    if view:
        raise OtlpError(_TOO_MANY_MEMBERS)
    return b"".join(parts)
