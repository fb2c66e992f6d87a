"""The address that metrics are sent to is checked."""

import pytest

from latencytrace.errors import SettingsError
from latencytrace.service.metrics.endpoint import metrics_endpoint
from latencytrace.settings import service_settings

OWN = [("127.0.0.1", 4318), ("127.0.0.1", 4317)]


@pytest.mark.parametrize(
    ("named", "protocol", "url"),
    [
        ("http://otel:4318", None, "http://otel:4318/v1/metrics"),
        ("http://otel:4318/", "http/protobuf", "http://otel:4318/v1/metrics"),
        ("https://otel/otlp/v1/metrics", None, "https://otel/otlp/v1/metrics"),
        ("http://127.0.0.1:9090/api/v1/otlp/v1/metrics", None, None),
        ("http://otel:4317", "grpc", "http://otel:4317"),
        ("otel:4317", "GRPC", "otel:4317"),
    ],
)
def test_an_address_without_a_path_gets_that_of_metrics(
    named: str, protocol: str | None, url: str | None
) -> None:
    assert metrics_endpoint(named, protocol, OWN).url == (url or named)


@pytest.mark.parametrize(
    ("named", "protocol", "why"),
    [
        ("otel:4318", None, "does not begin with http"),
        ("http://", None, "does not begin with http"),
        ("http://otel:port", None, "has a port that is no number"),
        ("otel:99999", "grpc", "has a port that is no number"),
        ("http://otel:4318", "http/json", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"),
    ],
)
def test_what_is_no_address_is_refused(named: str, protocol: str | None, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        metrics_endpoint(named, protocol, OWN)


@pytest.mark.parametrize(
    ("named", "protocol"),
    [
        ("http://127.0.0.1:4318", None),
        ("http://localhost:4318/v1/metrics", None),
        ("localhost:4317", "grpc"),
    ],
)
def test_the_service_does_not_send_to_itself(named: str, protocol: str | None) -> None:
    with pytest.raises(SettingsError, match="this service's own receiver"):
        metrics_endpoint(named, protocol, OWN)


def test_the_address_that_agents_send_to_is_not_where_the_service_sends() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318/v1/metrics",
    }

    assert service_settings(environ=environ).metrics_endpoint is None


def test_the_protocol_of_metrics_comes_first() -> None:
    environ = {
        "LATENCYTRACE_METRICS_ENDPOINT": "http://otel:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc",
    }

    settings = service_settings(environ=environ)

    assert (settings.metrics_endpoint, settings.metrics_protocol) == ("http://otel:4317", "grpc")
