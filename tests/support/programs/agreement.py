"""Services traced by OpenTelemetry's own SDK, and whether all that we answer agrees with them."""

import csv
import io
import json
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from latencytrace.model import Stage
from latencytrace.service.answers.findings.finding import Sample, samples
from latencytrace.service.metrics.counted_requests import DURATION_BUCKETS, STAGE_BUCKETS
from tests.support.servers.command_line import environment, latencytrace
from tests.support.servers.running_service import RunningService

Key = tuple[str, str]  # service and route
_STAGES = {  # by name: what each span of ours is, whoever reads it
    "tokenizer.encode": Stage.TOKENIZE,
    "search": Stage.RETRIEVE,
    "prefill": Stage.PREFILL,
    "decode": Stage.DECODE,
}
_KINDS = {"CLIENT": Stage.NETWORK, "SERVER": Stage.UNATTRIBUTED}
_LEVELS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_PATIENCE_S = 180
SDK_SCHEDULE_MS = 5000


@dataclass(frozen=True)
class Sent:
    """One request as its sender knows it."""

    trace_id: str
    span_id: str
    outermost: bool
    key: Key
    failed: bool
    duration_ns: int
    tokens: int
    ledger: Mapping[Stage, int]


@dataclass(frozen=True)
class System:
    """Which services there are besides the gateway, how they are asked, how long each waits."""

    services: Sequence[str]
    requests: int
    per_s: float
    schedule_ms: Mapping[str, int] = field(default_factory=dict)  # else the SDK's own
    apart_s: float = 0.0  # between their starts, so that they post at different moments
    routes: Sequence[str] = ("/chat", "/ask")


@contextmanager
def _process(role: str, record: Path, otlp: str, schedule_ms: int | None) -> Iterator[Any]:
    schedule = {} if schedule_ms is None else {"OTEL_BSP_SCHEDULE_DELAY": str(schedule_ms)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.programs.agreeing_program", role, str(record)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(
            OTEL_SERVICE_NAME=role, OTEL_EXPORTER_OTLP_ENDPOINT=otlp, PYTHONPATH=".", **schedule
        ),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def sent_by(system: System, otlp: str, folder: Path) -> list[Sent]:
    """Let the system serve its requests; what it sent. Its spans have left when this returns."""
    with ExitStack() as opened:
        processes = {}
        for role in (*system.services, "gateway"):
            record, schedule_ms = folder / f"{role}.json", system.schedule_ms.get(role)
            started = _process(role, record, otlp, schedule_ms)
            processes[role] = opened.enter_context(started)
            time.sleep(system.apart_s)
        calls = [(processes[one].stdout.readline().strip(), f"/{one}") for one in system.services]
        wanted = {
            "calls": calls,
            "requests": system.requests,
            "per_s": system.per_s,
            "routes": system.routes,
        }
        gateway = processes["gateway"]
        gateway.stdin.write(json.dumps(wanted) + "\n")
        gateway.stdin.flush()
        assert gateway.stdout.readline() == "done\n"
        # Each ends when its own schedule has come round, not before: nobody is flushed early.
        time.sleep(1.2 * max(system.schedule_ms.values(), default=SDK_SCHEDULE_MS) / 1000)
        for process in processes.values():
            process.stdin.close()
        for role, process in processes.items():
            assert process.wait(_PATIENCE_S) == 0, role
        spans = [
            span
            for role in processes
            for span in json.loads((folder / f"{role}.json").read_text())
        ]
    return list(_requests(spans))


def _requests(spans: Iterable[dict[str, Any]]) -> Iterator[Sent]:
    """The requests of spans that follow one another: each nanosecond is the innermost's."""
    below: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    servers = []
    for span in spans:
        below[span["parent_id"]].append(span)
        if span["kind"] == "SERVER":
            servers.append(span)
    for server in servers:
        ledger: Counter[Stage] = Counter()
        tokens = 0
        pending = [server]
        while pending:
            span = pending.pop()
            children = below[span["span_id"]]
            own_ns = _length_ns(span) - sum(map(_length_ns, children))
            ledger[_STAGES.get(span["name"]) or _KINDS[span["kind"]]] += own_ns
            tokens += span["tokens"]
            pending += children
        yield Sent(
            trace_id=server["trace_id"],
            span_id=server["span_id"],
            outermost=server["parent_id"] is None,
            key=(server["service"], server["name"]),
            failed=server["failed"],
            duration_ns=_length_ns(server),
            tokens=tokens,
            ledger={stage: ns for stage, ns in ledger.items() if ns},
        )


def _length_ns(span: Mapping[str, Any]) -> int:
    return int(span["end_ns"] - span["start_ns"])


def by_key(sent: Iterable[Sent]) -> dict[Key, list[Sent]]:
    """The requests of each service and route."""
    found: dict[Key, list[Sent]] = defaultdict(list)
    for one in sent:
        found[one.key].append(one)
    return dict(found)


def wait_until_counted(service: RunningService, sent: Sequence[Sent]) -> float:
    """Wait until the metrics count as many requests as were sent; the seconds it took."""
    began_s = time.monotonic()
    while service.metric("latencytrace_requests_total") < len(sent):
        assert time.monotonic() - began_s < _PATIENCE_S, service.said()
        time.sleep(0.1)
    return time.monotonic() - began_s


@dataclass(frozen=True)
class Told:
    """What a service answers: rows of its store by span id, breakdowns by query, metrics."""

    rows: Mapping[str, Mapping[str, str]]
    breakdowns: Mapping[str, dict[str, Any]]
    metrics: Sequence[Sample]


def told_by(service: RunningService, sent: Sequence[Sent]) -> Told:
    """Ask for all of it."""
    groups = by_key(sent)
    rows: dict[str, Mapping[str, str]] = {}
    for name in sorted({name for name, _ in groups}):
        written = latencytrace("export", "--service", name, "--url", service.url, timeout_s=120)
        assert written.returncode == 0, written.stderr
        rows |= {row["span_id"]: row for row in csv.DictReader(io.StringIO(written.stdout))}
    queries = ["", *(_query(key) for key in groups)]
    breakdowns = {one: cast(dict[str, Any], service.ask(f"/breakdown{one}")) for one in queries}
    return Told(rows, breakdowns, tuple(samples(service.get("/metrics").text)))


def disagreements(told: Told, sent: Sequence[Sent]) -> list[str]:
    """What the store, the breakdowns and the metrics say otherwise than the sender."""
    groups = by_key(sent)
    store = [*_of_store(told.rows, sent), *_of_breakdowns(told.breakdowns, groups)]
    return [*store, *_of_metrics(told.metrics, groups)]


def _query(key: Key) -> str:
    return f"?service={key[0]}&route={key[1]}"


def _of_store(rows: Mapping[str, Mapping[str, str]], sent: Sequence[Sent]) -> Iterator[str]:
    """Each row is what was sent, to the nanosecond."""
    if len(rows) != len(sent):
        yield f"store: {len(sent)} requests sent, {len(rows)} rows"
    for one in sent:
        row = rows.get(one.span_id)
        if row is None:
            yield f"store: {one.span_id} of {one.key} has no row"
            continue
        ledger = {stage: ns for stage in Stage if (ns := int(row[f"{stage}_ns"]))}
        key = (row["service"], row["route"])
        told = (key, int(row["duration_ns"]), ledger, row["status"])
        true = (one.key, one.duration_ns, one.ledger, "error" if one.failed else "ok")
        if told != true:
            yield f"store: {one.trace_id} is {told}, and was {true}"


def _of_breakdowns(
    told: Mapping[str, dict[str, Any]], groups: Mapping[Key, Sequence[Sent]]
) -> Iterator[str]:
    """Counts, means and exact quantiles; without a service, the outermost requests."""
    outermost = [one for own in groups.values() for one in own if one.outermost]
    for query, own in {**{_query(key): own for key, own in groups.items()}, "": outermost}.items():
        document = told[query]
        if document["requests"] != len(own):
            yield f"breakdown{query}: {document['requests']} of {len(own)} requests"
            continue
        durations = [one.duration_ns for one in own]
        true = {name: _quantile(durations, level) for name, level in _LEVELS.items()}
        true["mean"] = sum(durations) / len(own)
        for name, value in true.items():
            if abs(document["duration_ns"][name] - value) > 1:
                yield f"breakdown{query}: {name} is {document['duration_ns'][name]}, was {value}"
        rows = {row["stage"]: (row["mean_ns"], row["requests"]) for row in document["stages"]}
        for stage in Stage:
            times = [one.ledger[stage] for one in own if stage in one.ledger]
            mean_ns, count = rows.get(stage.value, (0, 0))
            if count != len(times) or abs(mean_ns - sum(times) / len(own)) > 1:
                wanted = (round(sum(times) / len(own)), len(times))
                yield f"breakdown{query}: {stage} is {(mean_ns, count)}, was {wanted}"


def _quantile(values: Sequence[int], level: float) -> float:
    return float(np.quantile(values, level))


def _of_metrics(told: Sequence[Sample], groups: Mapping[Key, Sequence[Sent]]) -> Iterator[str]:
    """Counts, sums and every bucket."""
    for key, own in groups.items():
        yield from _of_histogram(
            told,
            "latencytrace_request_duration_seconds",
            key,
            {},
            DURATION_BUCKETS,
            [one.duration_ns for one in own],
        )
        for stage in Stage:
            times = [one.ledger[stage] for one in own if stage in one.ledger]
            name = "latencytrace_stage_duration_seconds"
            more = {"stage": stage.value}
            yield from _of_histogram(told, name, key, more, STAGE_BUCKETS, times)
        for status, count in (
            ("ok", sum(not one.failed for one in own)),
            ("error", sum(one.failed for one in own)),
        ):
            yield from _differing(
                told, "latencytrace_requests_total", key, {"status": status}, count
            )
        tokens = sum(one.tokens for one in own)
        yield from _differing(
            told, "latencytrace_tokens_total", key, {"direction": "output"}, tokens
        )


def _of_histogram(
    told: Sequence[Sample],
    name: str,
    key: Key,
    more: Mapping[str, str],
    bounds: Sequence[float],
    times_ns: Sequence[int],
) -> Iterator[str]:
    within = Counter(bisect_left(bounds, ns / 1e9) for ns in times_ns)
    total = 0
    for place, bound in enumerate((*bounds, float("inf"))):
        total += within[place]
        edge = "+Inf" if bound == float("inf") else str(float(bound))
        yield from _differing(told, f"{name}_bucket", key, {**more, "le": edge}, total)
    yield from _differing(told, f"{name}_sum", key, more, sum(times_ns) / 1e9)


def _differing(
    told: Sequence[Sample], name: str, key: Key, more: Mapping[str, str], true: float
) -> Iterator[str]:
    wanted = {"service": key[0], "route": key[1], **more}
    value = sum(
        one.value for one in told if one.name == name and wanted.items() <= one.labels.items()
    )
    if abs(value - true) > 1e-6 * max(true, 1):
        yield f"{name}{wanted} is {value}, was {true}"
