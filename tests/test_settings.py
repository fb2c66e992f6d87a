"""What the environment says of where spans go, and how."""

import pytest

from latencytrace.settings import agent_settings

GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, "http://127.0.0.1:4317"),
        ({BASE: "http://collector:4317/"}, "http://collector:4317"),
        ({BASE: "https://collector:4317"}, "https://collector:4317"),
        ({BASE: "collector:4317"}, "https://collector:4317"),
        (
            {BASE: "collector:4317", "OTEL_EXPORTER_OTLP_INSECURE": "true"},
            "http://collector:4317",
        ),
        ({BASE: "http://a:1", TRACES: "http://b:2"}, "http://b:2"),
    ],
)
def test_over_grpc_spans_go_to_an_address_without_path(
    environ: dict[str, str], address: str
) -> None:
    settings = agent_settings(environ={**GRPC, **environ})

    assert (settings.grpc, settings.traces_url) == (True, address)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {**GRPC, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
    ],
)
def test_else_spans_are_posted(environ: dict[str, str]) -> None:
    settings = agent_settings(environ=environ)

    assert (settings.grpc, settings.traces_url) == (False, "http://127.0.0.1:4318/v1/traces")


def test_what_sends_over_http_alone_does_not_ask() -> None:
    settings = agent_settings(endpoint="http://a:1", over_http=True, environ=GRPC)

    assert settings.traces_url == "http://a:1/v1/traces"
