"""A `SpanBlock` as bytes, for the journal: its arrays one after the other.

The form is numbered, for what one version of the service has acknowledged the next one reads.
"""

from struct import Struct
from typing import Final

import numpy as np

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.span_block import (
    EVENT,
    LINK,
    NOT_SHAPED,
    PAIR,
    RESOURCE,
    SCOPE,
    SPAN,
    WORD,
    SpanBlock,
)

MAGIC: Final = b"\xf1cols\x01\r\n"  # no protobuf begins so; the number is that of the form
_ARRAYS: Final = (
    ("words", WORD), ("pairs", PAIR), ("table", SPAN), ("events", EVENT), ("links", LINK),
    ("resources", RESOURCE), ("scopes", SCOPE),
)  # fmt: skip
_HEAD: Final = Struct(f"<8s{len(_ARRAYS) + 1}Q")  # how many of each, and the bytes of the texts


def packed(block: SpanBlock) -> bytes:
    """A block as bytes."""
    arrays = [getattr(block, name) for name, _ in _ARRAYS]
    head = _HEAD.pack(MAGIC, *map(len, arrays), len(block.texts))
    return b"".join((head, *(array.tobytes() for array in arrays), block.texts))


def unpacked(data: bytes) -> SpanBlock:
    """A block from its bytes; its shapes are to be numbered anew.

    Raises:
        OtlpError: It is none.
    """
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise OtlpError("these are no columns of spans that this version can read")
    _, *counts, text_bytes = _HEAD.unpack_from(data)
    sizes = [count * kind.itemsize for count, (_, kind) in zip(counts, _ARRAYS, strict=True)]
    if _HEAD.size + sum(sizes) + text_bytes != len(data):
        raise OtlpError("columns of spans are cut off, or are followed by something else")
    arrays = {}
    at = _HEAD.size
    for (name, kind), count, size in zip(_ARRAYS, counts, sizes, strict=True):
        arrays[name] = np.frombuffer(data, kind, count, at).copy()
        at += size
    arrays["table"]["shape"] = NOT_SHAPED
    return SpanBlock(texts=data[at:], **arrays)
