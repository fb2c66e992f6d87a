"""The points of OTLP metrics, by service and name, read with the stock protobuf classes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint

from latencytrace.model import semconv
from tests.support.agent.receiving import Value, attributes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a histogram."""

    service: str
    instance: str
    name: str
    unit: str
    attributes: dict[str, Value]
    count: int
    sum: float
    bounds: tuple[float, ...]
    traces: frozenset[str]  # of its exemplars


def points(requests: Iterable[ExportMetricsServiceRequest], name: str = "") -> list[Point]:
    """Those of histograms of a name, in order of their arrival; without a name, all."""
    return [
        point for request in requests for point in _points(request) if name in {"", point.name}
    ]


def _points(request: ExportMetricsServiceRequest) -> Iterator[Point]:
    for of_resource in request.resource_metrics:
        resource = attributes_of(of_resource.resource.attributes)
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                for point in metric.histogram.data_points:
                    yield _point(point, resource, metric.name, metric.unit)


def _point(point: HistogramDataPoint, resource: dict[str, Value], name: str, unit: str) -> Point:
    return Point(
        service=str(resource.get(semconv.SERVICE_NAME)),
        instance=str(resource.get(semconv.SERVICE_INSTANCE_ID)),
        name=name,
        unit=unit,
        attributes=attributes_of(point.attributes),
        count=point.count,
        sum=point.sum,
        bounds=tuple(point.explicit_bounds),
        traces=frozenset(exemplar.trace_id.hex() for exemplar in point.exemplars),
    )
