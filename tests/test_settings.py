"""What the environment says of where spans go, and how."""

import pytest

from latencytrace.errors import SettingsError
from latencytrace.settings import agent_settings, service_settings, service_token

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


def test_alerts_go_to_the_log_unless_told_otherwise() -> None:
    assert service_settings(environ={}).sinks == (("log", ""),)


def test_sinks_are_named_with_their_addresses() -> None:
    named = "log, webhook=https://host/path?a=b ,alertmanager=http://am:9093"

    assert service_settings(environ={"LATENCYTRACE_SINKS": named}).sinks == (
        ("log", ""),
        ("webhook", "https://host/path?a=b"),
        ("alertmanager", "http://am:9093"),
    )


@pytest.mark.parametrize(
    "named", ["log,log", ",", "=http://h", "http://h/hush", "webhook=http://h/?a,b c"]
)
def test_what_is_no_list_of_sinks_is_refused_with_its_form(named: str) -> None:
    with pytest.raises(SettingsError, match=r"LATENCYTRACE_SINKS is no list.*webhook=") as refused:
        service_settings(environ={"LATENCYTRACE_SINKS": named})

    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("name", ["LATENCYTRACE_PUBLIC_URL", "LATENCYTRACE_DASHBOARD_URL"])
def test_what_links_are_built_on_is_an_address(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}='grafana' must begin with http"):
        service_settings(environ={name: "grafana"})


@pytest.mark.parametrize("token", ["a→b", "a\nb"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(SettingsError, match="LATENCYTRACE_TOKEN must be of ASCII") as refused:
        service_token({"LATENCYTRACE_TOKEN": token})

    assert token not in str(refused.value)
