"""Tables that the OpenTelemetry Collector's ClickHouse exporter wrote, older and newer ones."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.cli.importing import collector_table
from latencytrace.cli.importing.collector_table import message_of
from latencytrace.cli.source.folder import open_folder
from latencytrace.errors import LatencytraceError
from latencytrace.model import Event, Link, Span, Stage, StatusCode
from tests.support.builders.spans.otlp_messages import (
    START_NS,
    any_value,
    child,
    key_values,
    one_span,
)
from tests.support.clickhouse.front import PASSWORD, READER, USER, ClickHouseFront
from tests.support.servers.command_line import environment, latencytrace
from tests.support.terminal import said

pytestmark = pytest.mark.long

MINUTE_NS = 60 * 10**9
REQUESTS = 30
COLUMNS = """Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String,
TraceState String, SpanName LowCardinality(String), SpanKind LowCardinality(String),
ServiceName LowCardinality(String), ResourceAttributes Map(LowCardinality(String), String),
ScopeName String, ScopeVersion String, SpanAttributes Map(LowCardinality(String), String),
Duration UInt64, StatusCode LowCardinality(String), StatusMessage String,
Events Nested (Timestamp DateTime64(9), Name LowCardinality(String),
  Attributes Map(LowCardinality(String), String)),
Links Nested (TraceId String, SpanId String, TraceState String,
  Attributes Map(LowCardinality(String), String))"""


def ask(front: ClickHouseFront, sql: str) -> None:
    url = f"http://127.0.0.1:{front.port}/"
    answer = httpx.post(url, content=sql.encode(), auth=(USER, PASSWORD), trust_env=False)
    assert answer.is_success, answer.text


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def row(span: Span, *, old: bool) -> str:
    """A row as the exporter writes it, in JSON."""

    def texts(attributes: object) -> dict[str, str]:
        assert isinstance(attributes, dict)
        return {key: as_text(value) for key, value in attributes.items()}

    return json.dumps(
        {
            "Timestamp": f"{span.start_ns // 10**9}.{span.start_ns % 10**9:09}",
            "TraceId": span.trace_id, "SpanId": span.span_id,
            "ParentSpanId": span.parent_id or "", "TraceState": "", "SpanName": span.name,
            "SpanKind": f"SPAN_KIND_{span.kind.upper()}" if old else span.kind,
            "ServiceName": span.service,
            "ResourceAttributes": {
                "service.name": span.service, "service.instance.id": span.instance,
                "service.version": "1.0",
            },
            "ScopeName": span.scope, "ScopeVersion": "",
            "SpanAttributes": texts(span.attributes), "Duration": span.end_ns - span.start_ns,
            "StatusCode": f"STATUS_CODE_{span.status.upper()}" if old else span.status,
            "StatusMessage": "",
            "Events.Timestamp": [
                f"{one.time_ns // 10**9}.{one.time_ns % 10**9:09}" for one in span.events
            ],
            "Events.Name": [one.name for one in span.events],
            "Events.Attributes": [texts(one.attributes) for one in span.events],
            "Links.TraceId": [one.trace_id for one in span.links],
            "Links.SpanId": [one.span_id for one in span.links],
            "Links.TraceState": ["" for _ in span.links],
            "Links.Attributes": [texts(one.attributes) for one in span.links],
        }
    )  # fmt: skip


def spans() -> Iterator[Span]:
    """Requests of half an hour, with an exact step of decoding each."""
    for number in range(1, REQUESTS + 1):
        root = one_span(
            f"{number:032x}",
            start_ns=START_NS + number * MINUTE_NS,
            end_ns=START_NS + number * MINUTE_NS + 100_000_001,
            attributes={"http.route": "/chat", "gen_ai.usage.output_tokens": number},
        )
        yield replace(root, status=StatusCode.ERROR if number % 3 == 0 else StatusCode.OK)
        step = child(root, f"{number:016x}", Stage.DECODE, 10, 40)
        yield replace(
            step,
            events=(Event(time_ns=root.start_ns + 5, name="first", attributes={"n": 1}),),
            links=(Link(trace_id="f" * 32, span_id="e" * 16, attributes={}),),
        )


@pytest.mark.parametrize("old", [True, False], ids=["older exporter", "newer exporter"])
def test_ledgers_are_made_of_spans_that_others_stored(
    front: ClickHouseFront, tmp_path: Path, *, old: bool
) -> None:
    database = f"otel_{'old' if old else 'new'}"
    ask(front, f"CREATE DATABASE {database}")
    ask(
        front,
        f"CREATE TABLE {database}.otel_traces ({COLUMNS}) ENGINE = MergeTree "
        "PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))",
    )
    rows = "\n".join(row(span, old=old) for span in spans())
    ask(front, f"INSERT INTO {database}.otel_traces FORMAT JSONEachRow\n{rows}")
    url = front.url(f"{database}/otel_traces", user=READER)

    done = latencytrace(
        "import", url, "--data", tmp_path / "data", "--since", "2025-01-01T00:00:00Z",
    )  # fmt: skip
    with open_folder(tmp_path / "data") as source:
        wanted = {"since": "2025-01-01T00:00:00Z"}
        breakdown = source.document("/breakdown", wanted)
        first = source.document(f"/requests/{1:032x}", {})
    assert isinstance(breakdown, dict)
    assert isinstance(first, dict)

    assert done.returncode == 0, done.stderr
    assert f"{2 * REQUESTS} spans of {REQUESTS} traces imported" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
    assert breakdown["requests"] == REQUESTS
    assert first["duration_ns"] == 100_000_001
    assert first["ledger"]["decode"] == 30_000_000
    assert first["output_tokens"] == 1


def test_a_long_table_is_read_in_windows_that_hold_each_span_once(
    front: ClickHouseFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_table, "MOST_ROWS", 3)
    ask(front, "CREATE DATABASE windows")
    ask(front, f"CREATE TABLE windows.mine ({COLUMNS}) ENGINE = MergeTree ORDER BY Timestamp")
    full = [one_span(f"{1000 + number:032x}", start_ns=START_NS) for number in range(20)]
    rows = "\n".join(row(span, old=False) for span in [*spans(), *full])
    ask(front, f"INSERT INTO windows.mine FORMAT JSONEachRow\n{rows}")
    read: list[int] = []

    found = [
        (span.trace_id.hex(), span.span_id.hex())
        for record in collector_table.table_records(
            front.url("windows/mine"), START_NS, START_NS + 20 * MINUTE_NS, read.append
        )
        for resource in record.message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]

    wanted = [
        (span.trace_id, span.span_id)
        for span in [*spans(), *full]
        if span.start_ns < START_NS + 20 * MINUTE_NS
    ]
    assert sorted(found) == sorted(wanted)
    assert sum(read) == len(wanted)
    assert len(read) > 10


def test_no_record_has_more_than_a_service_takes(
    front: ClickHouseFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(front, "CREATE DATABASE records")
    ask(front, f"CREATE TABLE records.mine ({COLUMNS}) ENGINE = MergeTree ORDER BY Timestamp")
    rows = [
        row(one_span(f"{number + 1:032x}", attributes={"text": "x" * 1_000}), old=False)
        for number in range(12)
    ]
    ask(front, "INSERT INTO records.mine FORMAT JSONEachRow\n" + "\n".join(rows))
    monkeypatch.setattr(collector_table, "MOST_BYTES", 4_000)

    found = list(
        collector_table.table_records(
            front.url("records/mine"), START_NS, START_NS + MINUTE_NS, lambda _: None
        )
    )

    ids = [
        [
            span.trace_id.hex()
            for resource in record.message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        for record in found
    ]
    assert all(record.message.ByteSize() <= 4_000 for record in found)
    assert max(map(len, ids)) > 1
    assert sorted(itertools.chain(*ids)) == [f"{number + 1:032x}" for number in range(12)]
    lines = [record.place.line for record in found]
    assert lines == [1 + sum(map(len, ids[:place])) for place in range(len(ids))]


def test_bytes_that_are_no_text_are_replaced(front: ClickHouseFront) -> None:
    ask(front, "CREATE DATABASE bytes")
    for name in ("good", "mine"):
        ask(front, f"CREATE TABLE bytes.{name} ({COLUMNS}) ENGINE = MergeTree ORDER BY Timestamp")
    text = row(one_span("1" * 32, attributes={"key": "x"}), old=False)
    ask(front, f"INSERT INTO bytes.good FORMAT JSONEachRow\n{text}")
    ask(
        front,
        "INSERT INTO bytes.mine SELECT * REPLACE (map('key', concat('a', unhex('FF'), '\u2028b')) "
        "AS SpanAttributes) FROM bytes.good",
    )

    [record] = collector_table.table_records(
        front.url("bytes/mine"), START_NS, START_NS + MINUTE_NS, lambda _: None
    )

    span = record.message.resource_spans[0].scope_spans[0].spans[0]
    assert list(span.attributes) == key_values({"key": "a\ufffd\u2028b"})


def test_a_table_that_is_not_there_is_said(front: ClickHouseFront, tmp_path: Path) -> None:
    done = latencytrace("import", front.url("nowhere/otel_traces"), "--data", tmp_path / "data")

    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert PASSWORD not in done.stderr


def test_the_password_may_be_in_the_environment(front: ClickHouseFront, tmp_path: Path) -> None:
    url = f"clickhouse://{USER}@127.0.0.1:{front.port}/system/one"
    env = environment(LATENCYTRACE_CLICKHOUSE_PASSWORD=PASSWORD)

    done = latencytrace("import", url, "--data", tmp_path / "data", env=env)

    assert done.returncode == 1
    assert "Timestamp" in done.stderr  # which that table has not: it was asked


@pytest.mark.parametrize("path", ["x;y/otel_traces", "otel/a b", "otel/x'y"])
def test_what_is_no_name_of_a_table_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(LatencytraceError, match="is no name of a table"):
        said("import", f"clickhouse://h:1/{path}", "--data", tmp_path / "data")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-7", -7), ("0", 0), ("true", True), ("false", False), ("0.5", 0.5),
        ("4.1", 4.1), ("007", "007"), ("1.10", "1.10"), ("+1", "+1"), ("", ""), ("1e3", "1e3"),
        ("True", "True"), ("nan", "nan"), ("1_0", "1_0"), ("1.0.5", "1.0.5"), ("-", "-"),
        ("9" * 30, "9" * 30), ("[1,2]", "[1,2]"),
    ],
)  # fmt: skip
def test_a_text_is_a_number_only_where_no_other_text_says_the_same(
    text: str, value: str | float
) -> None:
    line = [
        "1" * 32, "2" * 16, "", "", "a", "Server", "rag", [], [], "", "", START_NS, 5, "Ok", "",
        ["key"], [text], [], [], [], [], [], [], [],
    ]  # fmt: skip

    [resource] = message_of(iter([line])).resource_spans
    span = resource.scope_spans[0].spans[0]

    assert list(span.attributes) == key_values({"key": value})
    assert span.attributes[0].value == any_value(value)
    assert span.kind == ProtoSpan.SPAN_KIND_SERVER
    assert span.end_time_unix_nano - span.start_time_unix_nano == 5
