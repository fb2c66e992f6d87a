"""Metrics to OTLP bytes, by hand: protobuf's classes would be loaded for these alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from latencytrace.agent.export.otlp_traces import field, key_value

# Fields of opentelemetry/proto/metrics/v1/metrics.proto: number << 3 | wire type.
_NAME, _UNIT, _GAUGE, _SUM = b"\x0a", b"\x1a", b"\x2a", b"\x3a"
_POINT, _ATTRIBUTE = b"\x0a", b"\x3a"
_CUMULATIVE, _MONOTONIC = b"\x10\x02", b"\x18\x01"
_START, _TIME, _AS_DOUBLE, _AS_INT = 0x11, 0x19, 0x21, 0x31
_INTEGER: Final = Struct("<BQBQBq")
_DOUBLE: Final = Struct("<BQBQBd")
_SCOPE: Final = field(b"\x0a", field(b"\x0a", b"latencytrace"))


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric."""

    attributes: bytes  # as `encoded_attributes` returns them
    start_ns: int  # Unix time, of a counter or of the window that a mean is over; 0: unknown
    time_ns: int
    value: float


def encoded_attributes(attributes: Mapping[str, object]) -> bytes:
    """The attributes of a point; worth keeping where they come again."""
    return b"".join(field(_ATTRIBUTE, key_value(*pair)) for pair in attributes.items())


def encoded_resource(attributes: Mapping[str, object]) -> bytes:
    return field(
        b"\x0a", b"".join(field(b"\x0a", key_value(*pair)) for pair in attributes.items())
    )


def encoded_metric(
    name: str,
    unit: str,
    points: Iterable[Point],
    *,
    is_counter: bool = False,
    adds_up: bool = False,
) -> bytes:
    """One metric: a gauge, a counter since its points' start, or what adds up over its points."""
    held = b"".join(field(_POINT, _numbers(point) + point.attributes) for point in points)
    described = field(_NAME, name.encode()) + field(_UNIT, unit.encode())
    if is_counter:
        return described + field(_SUM, held + _CUMULATIVE + _MONOTONIC)
    return described + (field(_SUM, held + _CUMULATIVE) if adds_up else field(_GAUGE, held))


def encoded_request(resource: bytes, metrics: Iterable[bytes]) -> bytes:
    """One `ExportMetricsServiceRequest`."""
    of_scope = _SCOPE + b"".join(field(b"\x12", metric) for metric in metrics)
    return field(b"\x0a", resource + field(b"\x12", of_scope))


def _numbers(point: Point) -> bytes:
    times = (_START, point.start_ns, _TIME, point.time_ns)
    if isinstance(point.value, int):
        return _INTEGER.pack(*times, _AS_INT, point.value)
    return _DOUBLE.pack(*times, _AS_DOUBLE, point.value)
