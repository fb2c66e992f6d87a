"""What the environment says of where spans go, and how."""

from pathlib import Path

import pytest

from latencytrace.analysis.repairs.implausible import WEEK_NS
from latencytrace.analysis.trace.weight import MOST
from latencytrace.errors import SettingsError
from latencytrace.settings import agent_settings, service_settings, service_token, service_url

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


STORE, PASSWORD = "LATENCYTRACE_STORE", "LATENCYTRACE_CLICKHOUSE_PASSWORD"


@pytest.mark.parametrize(
    ("store", "address"),
    [
        ("clickhouse://db/x?secure=1", "clickhouse://default:a%2Fb%40@db/x?secure=1"),
        ("clickhouse://bob@db", "clickhouse://bob:a%2Fb%40@db"),
        ("clickhouse://bob:@db", "clickhouse://bob:a%2Fb%40@db"),
        ("clickhouse://db?ca_cert=/a@b:c", "clickhouse://default:a%2Fb%40@db?ca_cert=/a@b:c"),
        ("clickhouse://bob:own@db", "clickhouse://bob:own@db"),
        ("chdb", "chdb"),
        ("other://db", "other://db"),
    ],
)
def test_the_password_of_a_store_comes_from_its_variable_unless_it_has_one(
    store: str, address: str
) -> None:
    settings = service_settings(environ={STORE: store, PASSWORD: "a/b@"})

    assert settings.store == address
    assert "a%2Fb" not in repr(settings)


def test_the_password_of_a_store_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("geheim\n")
    environ = {STORE: "clickhouse://bob@db", f"{PASSWORD}_FILE": str(file)}

    assert service_settings(environ=environ).store == "clickhouse://bob:geheim@db"

    file.unlink()
    with pytest.raises(SettingsError, match=rf"{PASSWORD}_FILE=.*cannot be read"):
        service_settings(environ=environ)


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_SCHEDULE_DELAY", "nan"),
        ("OTEL_BSP_SCHEDULE_DELAY", "inf"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "inf"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1"),
        ("LATENCYTRACE_QUEUE_BYTES", "nan"),
    ],
)
def test_a_number_that_no_thread_could_wait_for_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}='{value}' is not from"):
        agent_settings(environ={name: value})


def test_traces_may_have_a_timeout_of_their_own() -> None:
    settings = agent_settings(
        environ={
            "OTEL_EXPORTER_OTLP_TIMEOUT": "20",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "7",
        }
    )

    assert settings.timeout_s == 7.0


@pytest.mark.parametrize(
    "headers", ["secret", "a b=secret", "=secret", "a=secret%0A", "a=secret%E8%AA%9E"]
)
def test_headers_that_http_cannot_carry_are_refused_without_being_said(headers: str) -> None:
    with pytest.raises(SettingsError) as raised:
        agent_settings(environ={"OTEL_EXPORTER_OTLP_HEADERS": f"fine=1,{headers}"})

    assert "place 2" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_headers_are_read_as_opentelemetry_writes_them() -> None:
    headers = "Api%2DKey=a%20b=c, ,x="

    settings = agent_settings(environ={"OTEL_EXPORTER_OTLP_TRACES_HEADERS": headers})

    assert settings.headers == {"api-key": "a b=c", "x": ""}


@pytest.mark.parametrize(
    ("exporter", "disabled"), [("none", True), (" None ", True), ("otlp", False), ("", False)]
)
def test_without_an_exporter_of_traces_there_are_none(exporter: str, disabled: bool) -> None:
    assert agent_settings(environ={"OTEL_TRACES_EXPORTER": exporter}).disabled is disabled


@pytest.mark.parametrize(
    ("value", "says_yes"),
    [("true", True), (" TRUE ", True), ("1", False), ("yes", False), ("on", False), ("", False)],
)
def test_a_flag_of_the_specification_says_yes_by_true_alone(value: str, says_yes: bool) -> None:
    environ = {**GRPC, BASE: "collector:4317", "OTEL_EXPORTER_OTLP_INSECURE": value}

    assert agent_settings(environ={"OTEL_SDK_DISABLED": value}).disabled is says_yes
    assert agent_settings(environ=environ).traces_url.startswith("http://") is says_yes


@pytest.mark.parametrize(
    ("text", "days"), [("", 30), ("45d", 45), ("12h", 0.5), ("1.5 d", 1.5), ("off", None)]
)
def test_how_long_ledgers_are_kept_is_a_length_of_time(text: str, days: float | None) -> None:
    found = service_settings(environ={"LATENCYTRACE_KEEP_REQUESTS_FOR": text}).keep_requests_s

    assert found == (None if days is None else days * 86_400)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("", 20e9), ("500MB", 5e8), ("1.5 tb", 1.5e12), ("2GiB", 2**31), ("OFF", None)],
)
def test_how_much_disk_is_taken_is_a_size(text: str, size_bytes: float | None) -> None:
    found = service_settings(environ={"LATENCYTRACE_MAX_DISK": text}).max_disk_bytes

    assert found == size_bytes


@pytest.mark.parametrize("text", ["0d", "30", "-1d", "for ever", "7 days", "GB"])
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("LATENCYTRACE_KEEP_REQUESTS_FOR", "no length of time: write 30d"),
        ("LATENCYTRACE_KEEP_SPANS_FOR", "no length of time: write 30d"),
        ("LATENCYTRACE_MAX_DISK", "no size: write 20GB"),
    ],
)
def test_a_limit_of_what_is_kept_that_is_none_is_refused(name: str, form: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}='{text}' is {form}"):
        service_settings(environ={name: text})


def test_how_long_a_request_may_take_is_a_length_of_time() -> None:
    assert service_settings(environ={}).longest_ns == WEEK_NS
    assert service_settings(environ={"LATENCYTRACE_LONGEST": "1.5h"}).longest_ns == 5400 * 10**9


@pytest.mark.parametrize("text", ["off", "0.5s", "32d", "a week"])
def test_a_length_of_requests_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="LATENCYTRACE_LONGEST"):
        service_settings(environ={"LATENCYTRACE_LONGEST": text})


def test_buckets_of_stages_are_rising_seconds() -> None:
    named = {"LATENCYTRACE_STAGE_BUCKETS": "0.01, 0.1,1,10"}

    assert service_settings(environ=named).stage_buckets == (0.01, 0.1, 1.0, 10.0)
    assert service_settings(environ={}).stage_buckets == ()


@pytest.mark.parametrize("text", ["0.1,0.01", "0.1,0.1", "0,1", "a", "1,inf", "nan"])
def test_buckets_that_do_not_rise_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="are no rising numbers above 0: write"):
        service_settings(environ={"LATENCYTRACE_STAGE_BUCKETS": text})


def test_the_largest_weight_that_is_believed_is_a_flag_then_a_variable() -> None:
    named = {"LATENCYTRACE_MAX_WEIGHT": "50"}

    assert service_settings(environ={}).max_weight == MOST
    assert service_settings(environ=named).max_weight == 50
    assert service_settings(max_weight=1, environ=named).max_weight == 1


@pytest.mark.parametrize("text", ["0", "-1", "1000001", "inf", "nan", "many"])
def test_a_largest_weight_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="LATENCYTRACE_MAX_WEIGHT"):
        service_settings(environ={"LATENCYTRACE_MAX_WEIGHT": text})


@pytest.mark.parametrize("weight", [0, -1, 10**6 + 1])
def test_a_flag_of_the_largest_weight_is_bounded(weight: int) -> None:
    with pytest.raises(SettingsError, match="--max-weight is from 1 to 1000000"):
        service_settings(max_weight=weight, environ={})


@pytest.mark.parametrize("text", ["0", "201", "many"])
def test_routes_of_metrics_are_bounded(text: str) -> None:
    with pytest.raises(SettingsError, match="LATENCYTRACE_METRICS_ROUTES"):
        service_settings(environ={"LATENCYTRACE_METRICS_ROUTES": text})


@pytest.mark.parametrize(
    ("environ", "budget_ratio", "may_sample"),
    [
        ({}, 0.01, False),
        ({"LATENCYTRACE_OVERHEAD": "0.01"}, 0.01, True),
        ({"LATENCYTRACE_OVERHEAD": "0.2"}, 0.2, True),
        ({"LATENCYTRACE_OVERHEAD": " "}, 0.01, False),
    ],
)
def test_requests_are_left_out_for_a_budget_only_where_somebody_set_it(
    environ: dict[str, str], budget_ratio: float, *, may_sample: bool
) -> None:
    settings = agent_settings(environ=environ)

    assert (settings.overhead_ratio, settings.may_sample) == (budget_ratio, may_sample)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://127.0.0.1:8321"),
        ({"LATENCYTRACE_LISTEN": "127.0.0.1:9000"}, "http://127.0.0.1:9000"),
        ({"LATENCYTRACE_LISTEN": ":9000"}, "http://127.0.0.1:9000"),
        ({"LATENCYTRACE_LISTEN": "0.0.0.0:9000"}, "http://127.0.0.1:9000"),
        ({"LATENCYTRACE_LISTEN": "[::]:9000"}, "http://[::1]:9000"),
        ({"LATENCYTRACE_LISTEN": "127.0.0.1:0"}, "http://127.0.0.1:8321"),
        ({"LATENCYTRACE_LISTEN": ":9000", "LATENCYTRACE_URL": "http://a:1/"}, "http://a:1"),
    ],
    ids=["neither", "listens", "port", "everywhere", "everywhere by v6", "any port", "both"],
)
def test_the_service_is_where_it_listens_unless_its_address_is_named(
    environ: dict[str, str], url: str
) -> None:
    assert service_url(environ) == url


def test_where_a_service_listens_is_an_address() -> None:
    with pytest.raises(SettingsError, match="write HOST:PORT"):
        service_url({"LATENCYTRACE_LISTEN": "here"})
