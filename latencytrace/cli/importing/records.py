"""From the bytes of a file to OTLP messages; the format is found by what the file holds."""

import re
from collections.abc import Iterator
from typing import NoReturn

from latencytrace.cli.importing.chunks import Place, Record, Unread
from latencytrace.cli.importing.jaeger import is_jaeger_trace, message_from_jaeger
from latencytrace.cli.importing.json import LONG_LISTS, Fault, Item, JsonReader
from latencytrace.cli.importing.protobuf import PREFIX_BYTES, TAG, ProtobufReader
from latencytrace.errors import OtlpError
from latencytrace.service.otlp.json import message_from_tree
from latencytrace.service.otlp.mending.account import Mending

# A newline begins protobuf, too; a brace or a quote behind it may be a length, a name may not.
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:"\w|\}|$)|\[\s*(?:[\{\]\[]|$))')
_OTHER_SIGNALS = {
    "resourceMetrics": "metrics",
    "resource_metrics": "metrics",
    "resourceLogs": "logs",
    "resource_logs": "logs",
    "resourceProfiles": "profiles",
}
_OTLP_LISTS = frozenset({"resourceSpans", "resource_spans", "batches"})  # the last is Tempo's
_KEYS_TOLD = 5
_VARINT_BYTES = 10
_MORE = 0x80  # of a byte of a number: another follows


def records(chunks: Iterator[bytes]) -> Iterator[Record | Unread]:
    """Read OTLP (JSON, JSON lines, protobuf with or without lengths), Tempo's or Jaeger's JSON.

    Args:
        chunks: Not compressed; they may end in an `OtlpError`, which becomes the last piece.
    """
    try:
        first = next((chunk for chunk in chunks if chunk.strip()), b"")
    except OtlpError as error:
        yield Unread(place=Place(byte=0), reason=str(error))
        return
    if not first:
        yield Unread(place=Place(byte=0), reason="the file is empty")
    elif _JSON.match(first):
        yield from _from_json(_again(first, chunks))
    elif first[0] == TAG:
        yield from ProtobufReader(_again(first, chunks)).fields()
    elif len(first) > PREFIX_BYTES and first[0] < PREFIX_BYTES and first[PREFIX_BYTES] == TAG:
        yield from ProtobufReader(_again(first, chunks)).prefixed()
    elif _has_varint_length(first):
        reason = "protobuf behind lengths as varints is not read: write lengths of four bytes"
        yield Unread(place=Place(byte=0), reason=reason)
    else:
        yield Unread(place=Place(byte=0), reason="neither OTLP (JSON, protobuf) nor Jaeger's JSON")


def _has_varint_length(first: bytes) -> bool:
    """Tell whether a message follows its length, as protobuf's delimited streams have it."""
    width = next((at for at, byte in enumerate(first[:_VARINT_BYTES], 1) if byte < _MORE), 0)
    return first[width : width + 1] == bytes((TAG,)) and width > 0


def _again(first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from chunks


def _from_json(chunks: Iterator[bytes]) -> Iterator[Record | Unread]:
    for item in JsonReader(chunks).items():
        place = Place(line=item.line)
        if isinstance(item, Fault):
            yield Unread(place=place, reason=item.reason)
            continue
        try:
            yield from _records(item, place)
        except OtlpError as error:
            yield Unread(place=place, reason=str(error))


def _records(item: Item, place: Place) -> Iterator[Record]:
    value = item.value
    if not isinstance(value, dict):
        raise OtlpError("neither OTLP nor Jaeger: no JSON object")
    if item.is_rest:
        _refuse_errors(value)
    # A document within the list of another: the line before it was cut off.
    elif item.list_name in _OTLP_LISTS and not LONG_LISTS & value.keys():
        yield _record({"resourceSpans": [value]}, place)
    else:
        yield from _from_document(value, place)


def _from_document(document: dict[str, object], place: Place) -> Iterator[Record]:
    """Read what one JSON object holds."""
    if is_jaeger_trace(document):
        yield Record(place=place, message=message_from_jaeger(document))
        return
    _refuse_errors(document)
    whole = document.get("trace")  # of Tempo, next to what its search cost
    if isinstance(whole, dict) and _OTLP_LISTS & whole.keys():
        document = whole
    for key in _OTLP_LISTS & document.keys():
        yield _record({"resourceSpans": document[key]}, place)
    traces = document.get("data")
    if not isinstance(traces, list | None) and not _OTLP_LISTS & document.keys():
        _refuse_unknown(document)
    for trace in traces if isinstance(traces, list) else ():
        if not (isinstance(trace, dict) and is_jaeger_trace(trace)):
            raise OtlpError("neither OTLP nor Jaeger: an item of `data` is no trace")
        yield Record(place=place, message=message_from_jaeger(trace))
    if document and not (_OTLP_LISTS | {"data"}) & document.keys():
        _refuse_unknown(document)


def _refuse_errors(document: dict[str, object]) -> None:
    """Jaeger's answer may be an error.

    Raises:
        OtlpError: The document is an error.
    """
    errors = document.get("errors")
    if isinstance(errors, list) and errors:
        said = errors[0].get("msg") if isinstance(errors[0], dict) else errors[0]
        raise OtlpError(f"it is an error of Jaeger's: {said}")


def _refuse_unknown(document: dict[str, object]) -> NoReturn:
    for key, signal in _OTHER_SIGNALS.items():
        if key in document:
            raise OtlpError(f"it holds {signal}, not traces")
    keys = ", ".join(map(repr, list(document)[:_KEYS_TOLD]))
    raise OtlpError(f"neither OTLP nor Jaeger: its keys are {keys}")


def _record(tree: dict[str, object], place: Place) -> Record:
    mending = Mending()
    return Record(place=place, message=message_from_tree(tree, mending), mending=mending)
