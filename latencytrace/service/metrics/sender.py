"""Sends what requests cost as OTLP metrics, with the SDK's own reader and exporters."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    DataPointT,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource

from latencytrace.errors import SettingsError
from latencytrace.model import Request, semconv
from latencytrace.service.metrics.endpoint import MetricsEndpoint
from latencytrace.service.metrics.requests import RequestMetrics

GRACE_MS: Final = 5000  # for the last metrics, at the end
MOST_POINTS: Final = 1000  # in one request over gRPC: receivers take 4 MB by default
_OURSELVES: Final = "latencytrace"
_SDK_LOGS: Final = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
)

_log = logging.getLogger(__name__)


@contextmanager
def sending_metrics(
    endpoint: MetricsEndpoint, *, instance: str, failed: Callable[[], object]
) -> Iterator[Callable[[Iterable[Request]], None]]:
    """Give what records requests, and send their metrics until the end.

    Everything waits in sums of bounded number, so that a receiver that is slow or dead costs
    nothing but the news. How often, how long and with which headers is said by the variables
    that the SDK reads itself.

    Args:
        instance: Sets this service's metrics apart from those of another one.
        failed: Called each time that they could not be sent.

    Raises:
        SettingsError: A variable that the SDK reads has a value that cannot be used.
    """
    try:
        exporter = PerServiceExporter(_exporter(endpoint), instance, failed)
        reader = PeriodicExportingMetricReader(exporter)
        provider = MeterProvider([reader], _resource(_OURSELVES, instance), shutdown_on_exit=False)
    except ValueError as error:
        raise SettingsError(f"metrics cannot be sent over OTLP: {error}") from None
    for name in _SDK_LOGS:
        logging.getLogger(name).addFilter(exporter.says_why_not)
    meter = provider.get_meter(_OURSELVES, version(_OURSELVES))
    try:
        yield RequestMetrics(meter).count
    finally:
        provider.shutdown(GRACE_MS)
        for name in _SDK_LOGS:
            logging.getLogger(name).removeFilter(exporter.says_why_not)


class PerServiceExporter(MetricExporter):
    """Gives the points of each traced service a resource of their own.

    An SDK has one resource, that of the process it is in; here, one process speaks for many.

    Args:
        instance: The `service.instance.id` of each resource.
        failed: Called each time that they could not be sent.
    """

    def __init__(
        self, exporter: MetricExporter, instance: str, failed: Callable[[], object]
    ) -> None:
        super().__init__(
            exporter._preferred_temporality,  # noqa: SLF001 - as the SDK's reader does
            exporter._preferred_aggregation,  # noqa: SLF001 - it has no public name
        )
        self._exporter = exporter
        self._instance = instance
        self._failed = failed
        self._is_failing = False

    def says_why_not(self, _: logging.LogRecord) -> bool:
        """Let the SDK log once why it cannot send: it would say so each time."""
        return not self._is_failing

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,
        **kwargs: Any,
    ) -> MetricExportResult:
        """Send them; called by the SDK's own thread."""
        parted = MetricsData(
            resource_metrics=[
                part
                for whole in metrics_data.resource_metrics
                for part in _per_service(whole, self._instance)
            ]
        )
        result = self._exporter.export(parted, timeout_millis, **kwargs)
        if result is MetricExportResult.SUCCESS:
            if self._is_failing:
                _log.warning("metrics are sent again")
        else:
            self._failed()
        self._is_failing = result is not MetricExportResult.SUCCESS
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Nothing waits here."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Send no more, and try nothing again."""
        self._exporter.shutdown(timeout_millis, **kwargs)


def _exporter(endpoint: MetricsEndpoint) -> MetricExporter:
    # One is enough, and each takes a while to import.
    if endpoint.grpc:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415
            OTLPMetricExporter as GrpcExporter,
        )

        return GrpcExporter(endpoint.url, max_export_batch_size=MOST_POINTS)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter as HttpExporter,
    )

    return HttpExporter(endpoint.url)


def _per_service(whole: ResourceMetrics, instance: str) -> Iterator[ResourceMetrics]:
    """The same points, parted by their attribute `service.name`; those without it unchanged."""
    parts: dict[str | None, list[ScopeMetrics]] = defaultdict(list)
    for of_scope in whole.scope_metrics:
        metrics: dict[str | None, list[Metric]] = defaultdict(list)
        for metric in of_scope.metrics:
            for service, points in _points(metric).items():
                data = replace(metric.data, data_points=points)  # type: ignore[arg-type] # as they were
                metrics[service].append(replace(metric, data=data))
        for service, found in metrics.items():
            parts[service].append(replace(of_scope, metrics=found))
    for service, scopes in parts.items():
        resource = whole.resource if service is None else _resource(service, instance)
        yield ResourceMetrics(resource, scopes, resource.schema_url)


def _points(metric: Metric) -> dict[str | None, list[DataPointT]]:
    """The points of each service, which they no longer name."""
    points: dict[str | None, list[DataPointT]] = defaultdict(list)
    for point in metric.data.data_points:
        attributes = dict(point.attributes or {})
        service = attributes.pop(semconv.SERVICE_NAME, None)
        points[None if service is None else str(service)].append(
            replace(point, attributes=attributes)
        )
    return points


def _resource(service: str, instance: str) -> Resource:
    return Resource({semconv.SERVICE_NAME: service, semconv.SERVICE_INSTANCE_ID: instance})
