"""Metrics in Prometheus's protobuf form, which alone has native histograms.

Source: `io.prometheus.client`, metrics.proto (github.com/prometheus/client_model). Histograms are
sent both ways: a scraper keeps the native one, and the classic buckets where it is set to.
Written by hand, for 3000 histograms as messages take seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from struct import Struct, pack
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from latencytrace.model.varints import varint
from latencytrace.service.metrics.histograms import SCHEMA, Seen, Series, SeriesFamily

PROTOBUF: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)
ZERO_THRESHOLD: Final = 2.0**-128  # shorter ones are no time at all
_COUNTER, _GAUGE, _UNTYPED, _HISTOGRAM = 0, 1, 3, 4
_VALUE_FIELDS: Final = {_GAUGE: b"\x12", _COUNTER: b"\x1a", _UNTYPED: b"\x2a"}
_LONGEST_GAP: Final = 2  # of empty buckets, which a span holds rather than ends before
_BYTES: Final = [bytes([number]) for number in range(256)]
_LAST: Final = 0x80  # the first number that takes a second byte
_NS_PER_S: Final = 10**9
_KNOWN: Final = 4096  # labels, moments
_TRACE_ID: Final = b"\x0a\x08trace_id\x12"
_NAME: Final = attrgetter("name")


def encoded(families: Iterable[Metric]) -> bytes:
    """Write families of metrics, each after its length."""
    return b"".join(_sized(message) for family in families for message in _messages(family))


def _messages(family: Metric) -> Iterator[bytes]:
    if isinstance(family, SeriesFamily):
        yield _family(family.name, family.documentation, _HISTOGRAM, _histograms(family))
        return
    by_name = sorted(family.samples, key=_NAME)
    for name, samples in groupby(by_name, key=_NAME):
        kind = _UNTYPED
        if family.type == "gauge":
            kind = _GAUGE
        elif family.type == "counter" and name.endswith("_total"):
            kind = _COUNTER
        yield _family(name, family.documentation, kind, (_plain(one, kind) for one in samples))


def _family(name: str, text: str, kind: int, metrics: Iterable[bytes]) -> bytes:
    return b"".join([
        _text(b"\x0a", name),
        _text(b"\x12", text),
        b"\x18" + _BYTES[kind],
        *(b"\x22" + _sized(metric) for metric in metrics),
    ])  # fmt: skip


def _plain(sample: Sample, kind: int) -> bytes:
    value = b"\x09" + pack("<d", sample.value)
    return _labels(sample.labels) + _VALUE_FIELDS[kind] + _sized(value)


def _histograms(family: SeriesFamily) -> Iterator[bytes]:
    bounds = [b"\x11" + pack("<d", bound) for bound in (*family.bounds, float("inf"))]
    for series in family.series:
        pairs = dict(zip(family.label_names, series.labels, strict=True))
        yield _labels(pairs) + b"\x3a" + _sized(_histogram(series, bounds))


def _histogram(series: Series, bounds: list[bytes]) -> bytes:
    parts = [
        b"\x08", varint(sum(series.counts)), b"\x11", pack("<d", series.total),
    ]  # fmt: skip
    until = 0
    last = bounds[-1]
    for bound, count, seen in zip(bounds, series.counts, series.exemplars, strict=True):
        until += count
        if seen is not None:
            exemplar = _exemplar(seen)
            bucket = b"".join((b"\x08", varint(until), bound, b"\x1a", exemplar))
        elif bound is last:
            continue  # it is what all are
        else:
            bucket = b"\x08" + varint(until) + bound
        parts += (b"\x1a", _sized(bucket))
    parts += (_NATIVE, varint(series.zeros), *_native(series.native))
    return b"".join(parts)


def _native(counts: Mapping[int, int]) -> Iterator[bytes]:
    """The spans of buckets that hold something, then their counts as differences."""
    deltas = bytearray()
    end = before = offset = length = 0  # the last two: of a span
    for number, count in sorted(counts.items()):
        gap = number - end
        if length and gap <= _LONGEST_GAP:
            for _ in range(gap):
                deltas += varint(_zigzag(-before))
                before = 0
            length += gap + 1
        else:
            if length:
                yield _span(offset, length)
            offset, length = gap, 1
        delta = count - before
        deltas += _DELTAS[delta] if -_NEAR < delta < _NEAR else varint(_zigzag(delta))
        before, end = count, number + 1
    if length:
        yield _span(offset, length)
        yield b"\x6a" + _sized(bytes(deltas))


def _span(offset: int, length: int) -> bytes:
    """Buckets that follow each other, so many after those before."""
    return b"\x62" + _sized(b"\x08" + varint(_zigzag(offset)) + b"\x10" + varint(length))


def _exemplar(seen: Seen) -> bytes:
    """An exemplar after its length."""
    seconds, trace_id, at_s = seen
    traced = trace_id.encode()
    at = _moment(at_s)
    if len(traced) == _TRACE_ID_CHARS:  # all are, but for what tests and old stores hold
        return b"".join((_BYTES[_TRACED + len(at)], _TRACE, traced, _VALUE(0x11, seconds), at))
    label = _TRACE_ID + _sized(traced)
    return _sized(b"\x0a" + _sized(label) + _VALUE(0x11, seconds) + at)


@lru_cache(maxsize=_KNOWN)
def _moment(at_s: float) -> bytes:
    """The time of an exemplar, which all that were counted together have."""
    at_ns = round(at_s * _NS_PER_S)
    at = b"\x08" + varint(at_ns // _NS_PER_S) + b"\x10" + varint(at_ns % _NS_PER_S)
    return b"\x1a" + _sized(at)


def _labels(labels: Mapping[str, str]) -> bytes:
    return b"".join([_label(name, value) for name, value in labels.items()])


@lru_cache(maxsize=_KNOWN)
def _label(name: str, value: str) -> bytes:
    """A label, encoded once: many series share it."""
    return b"\x0a" + _sized(_text(b"\x0a", name) + _text(b"\x12", value))


def _text(tag: bytes, text: str) -> bytes:
    return tag + _sized(text.encode())


def _sized(message: bytes) -> bytes:
    length = len(message)  # as `varint` writes it
    return (_BYTES[length] if length < _LAST else varint(length)) + message


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


_VALUE: Final = Struct("<Bd").pack  # a tag and a number
_NATIVE: Final = b"\x28" + varint(_zigzag(SCHEMA)) + b"\x31" + pack("<d", ZERO_THRESHOLD) + b"\x38"
# An exemplar with a trace id of the usual length, which is written without being measured.
_TRACE_ID_CHARS: Final = 32
_TRACE: Final = b"\x0a\x2c" + _TRACE_ID + b"\x20"
_TRACED: Final = len(_TRACE) + _TRACE_ID_CHARS + 9

# Differences between the counts of two buckets, by themselves: those below 0 from the end on.
_NEAR: Final = 512
_DELTAS: Final = [varint(_zigzag(delta)) for delta in (*range(_NEAR), *range(-_NEAR, 0))]
