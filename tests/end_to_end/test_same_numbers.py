"""The same spans give the same numbers, however they came and wherever they are read."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from pyarrow import parquet

from latencytrace.cli.importing.files import import_files
from latencytrace.cli.source.folder import open_folder
from latencytrace.model import (
    Attributes,
    Interval,
    Link,
    Span,
    SpanKind,
    Stage,
    pack_intervals,
    semconv,
)
from latencytrace.model.texts.units import duration, shares
from latencytrace.service.answers.documents import BreakdownDocument, ListedRequestDocument
from tests.support.builders.spans.otlp_messages import START_NS, one_span, otlp
from tests.support.builders.trace_files import jaeger_json, otlp_json, otlp_json_lines
from tests.support.servers.command_line import environment, latencytrace
from tests.support.servers.running_service import RunningService

pytestmark = pytest.mark.long

US = 1_000  # Jaeger's files know nothing shorter
MS = 1_000_000
TRACES = 6
WHOLE = {"since": "2025-11-01T00:00:00Z", "until": "2025-12-01T00:00:00Z"}
QUERY = "since=2025-11-01T00:00:00Z&until=2025-12-01T00:00:00Z"

Body = str | bytes
Documents = dict[str, dict[str, object]]


@dataclass(frozen=True)
class _Writer:
    """Writes the spans of one trace; ids are numbers, times microseconds from its start."""

    number: int

    @property
    def start_ns(self) -> int:
        return START_NS + self.number * 1_000 * MS

    def span(
        self,
        span_id: int,
        parent: int | None,
        name: str,
        start_us: int,
        end_us: int,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        service: str = "rag",
    ) -> Span:
        made = one_span(
            f"{self.number:032x}",
            f"{span_id:016x}",
            parent_id=None if parent is None else f"{parent:016x}",
            name=name,
            kind=kind,
            start_ns=self.start_ns + start_us * US,
            end_ns=self.start_ns + end_us * US,
            attributes=attributes,
        )
        return replace(made, service=service, instance=f"{service}-{self.number % 2}")

    def interval(self, stage: Stage, start_ms: int, end_ms: int) -> Interval:
        return Interval(
            stage=stage,
            start_ns=self.start_ns + start_ms * MS,
            end_ns=self.start_ns + end_ms * MS,
        )


def trace(number: int) -> list[Span]:
    """A request through two services, each trace a little different from the others."""
    late_us = number * 37
    of = _Writer(number)
    busy = pack_intervals(
        [of.interval(Stage.DETOKENIZE, 70, 71), of.interval(Stage.RESPOND, 80, 85)],
        of.start_ns + 45 * MS,
    )
    chat: Attributes = {
        semconv.HTTP_REQUEST_METHOD: "POST",
        semconv.HTTP_ROUTE: "/chat",
        semconv.HTTP_RESPONSE_STATUS_CODE: 500 if number == 2 else 200,
    }
    post = {semconv.HTTP_REQUEST_METHOD: "POST"}
    embed = {semconv.HTTP_REQUEST_METHOD: "POST", semconv.HTTP_ROUTE: "/embed"}
    tokens: Attributes = {
        semconv.STAGE: "decode",
        semconv.INTERVALS: busy,
        semconv.GEN_AI_RESPONSE_MODEL: "tiny",
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 10 + number,
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 0.0125,
    }
    server, client, work = SpanKind.SERVER, SpanKind.CLIENT, SpanKind.INTERNAL
    generate = of.span(6, 1, "generate", 45_000, 99_000, tokens)
    return [
        of.span(1, None, "POST /chat", 0, 100_000 + late_us, chat, server),
        of.span(2, 1, "POST", 5_000, 30_000 + late_us, post, client),
        of.span(3, 2, "POST /embed", 7_000, 28_001, embed, server, "embedder"),
        of.span(4, 3, "encode", 8_000, 27_000, {semconv.STAGE: "embed"}, work, "embedder"),
        of.span(5, 1, "search", 31_000, 44_000, {semconv.DB_SYSTEM_NAME: "qdrant"}, client),
        replace(generate, links=(Link(trace_id="c" * 32, span_id="d" * 16),)),
        of.span(7, 9, "its parent never came", 99_000, 99_500, {}),
    ]


ALL = [trace(number) for number in range(1, TRACES + 1)]
HEAP = [span for spans in ALL for span in spans]


def backwards(*spans: Span) -> str:
    return otlp_json_lines(*reversed(spans))


def jaeger(*spans: Span) -> str:
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    return jaeger_json(*by_trace.values())


def compressed(*spans: Span) -> bytes:
    return gzip.compress(otlp_json_lines(*spans).encode())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that the spans were sent to as they are sent every day."""
    with RunningService(tmp_path_factory.mktemp("live") / "data") as service:
        for spans in ALL:
            service.post(otlp(*spans))
        for spans in ALL:
            service.request(spans[0].trace_id)
        yield service


@pytest.fixture(scope="module")
def wanted(live: RunningService) -> Documents:
    return documents(live.ask)


def documents(ask: Callable[[str], dict[str, object]]) -> Documents:
    """All that can be asked about the traces."""
    paths = [
        "/services",
        *(f"/breakdown?{QUERY}{more}" for more in ("", "&service=embedder", "&instance=rag-1")),
        f"/requests?{QUERY}&order=newest",
        *(f"/requests/{spans[0].trace_id}" for spans in ALL),
        f"/requests/{ALL[0][0].trace_id}?span_id={3:016x}",
    ]
    found = {path: ask(path) for path in paths}
    for document in found.values():
        for span in cast(list[dict[str, list[dict[str, object]]]], document.get("spans", [])):
            for link in span["links"]:
                link["attributes"] = {}  # of Jaeger's, the kind of the reference
    return found


def in_folder(folder: Path) -> Documents:
    with open_folder(folder) as source:

        def ask(path: str) -> dict[str, object]:
            path, _, query = path.partition("?")
            pairs = (pair.partition("=") for pair in query.split("&") if pair)
            document = source.document(path, {key: value for key, _, value in pairs})
            return cast(dict[str, object], document)

        return documents(ask)


@pytest.mark.parametrize(
    "write",
    [otlp, otlp_json, compressed, backwards, jaeger],
    ids=lambda write: write.__name__,
)
def test_imported_from_a_file_of_any_format(
    write: Callable[..., Body], wanted: Documents, tmp_path: Path
) -> None:
    body = write(*HEAP)
    file = tmp_path / "traces"
    file.write_bytes(body.encode() if isinstance(body, str) else body)

    assert import_files([str(file)], url=None, endpoint=None, data=tmp_path / "data", as_json=True)
    assert in_folder(tmp_path / "data") == wanted


def test_imported_into_a_service_that_runs(wanted: Documents, tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(otlp_json_lines(*HEAP))
    with RunningService(tmp_path / "data") as service:
        done = latencytrace("import", file, "--json", "--url", service.url)
        found = documents(service.ask)

    counted = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (counted["into"], counted["spans"], counted["requests"]) == (service.url, 42, 6)
    assert found == wanted


def test_imported_again_into_the_service_that_got_them_live(
    live: RunningService, wanted: Documents, tmp_path: Path
) -> None:
    file = tmp_path / "traces.json"
    file.write_text(backwards(*HEAP))  # Jaeger says more of a link: a copy that differs
    done = latencytrace("import", file, env=environment(LATENCYTRACE_URL=live.url))

    assert done.returncode == 0, done.stderr
    assert documents(live.ask) == wanted


def test_read_from_the_terminal_as_json(live: RunningService, wanted: Documents) -> None:
    flags = ("--since", WHOLE["since"], "--until", WHOLE["until"], "--url", live.url, "--json")

    told = json.loads(latencytrace("breakdown", *flags).stdout)
    listed = json.loads(latencytrace("requests", "--order", "newest", *flags).stdout)
    one = json.loads(latencytrace("trace", ALL[0][0].trace_id, *flags).stdout)
    assert told == wanted[f"/breakdown?{QUERY}"]
    assert listed == wanted[f"/requests?{QUERY}&order=newest"]
    assert one == wanted[f"/requests/{ALL[0][0].trace_id}"]


def test_read_from_the_table_in_the_terminal(live: RunningService) -> None:
    flags = ("--route", "POST /embed", "--service", "embedder")
    when = ("--since", WHOLE["since"], "--until", WHOLE["until"])
    drawn = latencytrace("breakdown", *flags, *when, "--url", live.url).stdout
    document = cast(
        BreakdownDocument, live.ask(f"/breakdown?{QUERY}&route=POST /embed&service=embedder")
    )

    rows = document["stages"]
    printed_shares = shares([row["mean_ns"] for row in rows])
    lines = {line.split()[0]: line for line in drawn.splitlines() if line}
    assert {"embed", "unattributed"} == {row["stage"] for row in rows}
    for row, share in zip(rows, printed_shares, strict=True):
        numbers = [
            duration(row["mean_ns"]),
            share,
            *(duration(value) for value in (row["p50_ns"], row["p95_ns"], row["p99_ns"])),
            str(row["requests"]),
        ]
        cells = lines[row["stage"]].split()
        assert " ".join(cells[2:]) == " ".join(numbers)


def test_exported_as_a_table(live: RunningService, wanted: Documents) -> None:
    flags = ("--since", WHOLE["since"], "--until", WHOLE["until"], "--url", live.url)
    written = latencytrace("export", *flags).stdout
    answer = live.get(f"/api/v1/ledgers?{QUERY}&format=parquet")

    rows = list(csv.DictReader(io.StringIO(written)))
    listed = cast(
        list[ListedRequestDocument], wanted[f"/requests?{QUERY}&order=newest"]["requests"]
    )
    assert [
        {
            "trace_id": row["trace_id"],
            "ledger": {
                stage.value: length_ns for stage in Stage if (length_ns := int(row[f"{stage}_ns"]))
            },
        }
        for row in reversed(rows)
    ] == [{"trace_id": one["trace_id"], "ledger": one["ledger"]} for one in listed]
    table = parquet.read_table(io.BytesIO(answer.content)).to_pylist()
    assert [row["decode_ns"] for row in table] == [int(row["decode_ns"]) for row in rows]
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
