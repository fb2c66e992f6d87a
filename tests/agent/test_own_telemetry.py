"""A program's own receiver gets the same with us and without, span by span, metric by metric."""

import gzip
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from latencytrace.agent import autostart
from latencytrace.agent.start import SCOPE
from tests.support.agent import own_telemetry
from tests.support.agent.receiving import Receiver, attributes_of, received_spans
from tests.support.servers.recording import Received, RecordingServer

ENVIRONMENTS = Path(
    os.environ.get("LATENCYTRACE_TEST_TRACERS", Path(__file__).parents[2] / ".venv/own")
)
# The set-ups that are installed together.
WITHIN = {"sdk": "contrib", "auto_configure": "contrib", "distribution": "contrib"}
DISTRIBUTION = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
NUMBERS = re.compile(r"[0-9a-f]{16,}|\d+(\.\d+)?")
# What no two runs have in common.
OWN_IDS = re.compile(
    r"(\.id|_id|\.pid|port|time|instance|thread|duration|latency|uuid|command.*)$"
)

Seen = Counter[tuple[object, ...]]


def noted(attributes: Iterable[KeyValue]) -> tuple[tuple[str, str], ...]:
    """Attributes without what differs from run to run."""
    found = attributes_of(attributes)
    return tuple(
        sorted(
            (key, "" if OWN_IDS.search(key) else NUMBERS.sub("#", str(value)))
            for key, value in found.items()
        )
    )


def spans_of(bodies: Iterable[bytes]) -> Seen:
    """Every span but ours, by what it says and by the name of its parent, which is none of ours.

    A provider of the program's makes ours, too: those stand in its traces beside its own. The
    parents of what is called over HTTP are left out: a header of ours leads to a span of ours.
    """
    posts = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    known = {span.span_id: span for post in posts for span in received_spans(post)}

    def parent_of(span_id: str | None) -> str | None:
        parent = known.get(span_id or "")
        if parent is not None and parent.scope == SCOPE:
            return parent_of(parent.parent_id)
        return parent.name if parent is not None else "remote" if span_id else None

    seen: Seen = Counter()
    for of_resource in (one for post in posts for one in post.resource_spans):
        resource = noted(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in () if of_scope.scope.name == SCOPE else of_scope.spans:
                said = (of_scope.scope.name, span.name, span.kind, span.status.code)
                is_called = span.kind == OtlpSpan.SPAN_KIND_SERVER
                parent = None if is_called else parent_of(span.parent_span_id.hex())
                events = tuple(event.name for event in span.events)
                more = (noted(span.attributes), events, len(span.links), span.trace_state)
                seen[("span", *said, parent, *more, resource)] += 1
    return seen


def metrics_of(bodies: Iterable[bytes]) -> Seen:
    """Every series of every metric, with how much it counted."""
    seen: Seen = Counter()
    posts = map(ExportMetricsServiceRequest.FromString, bodies)
    of_resources = (one for post in posts for one in post.resource_metrics)
    for of_scope in (scope for one in of_resources for scope in one.scope_metrics):
        for metric in of_scope.metrics:
            kind = str(metric.WhichOneof("data"))
            said = (of_scope.scope.name, metric.name, metric.unit, kind)
            for point in getattr(metric, kind).data_points:
                counted = getattr(point, "count", None)
                seen[("metric", *said, noted(point.attributes), counted)] += 1
    return seen


def seen_by(received: Iterable[Received]) -> Seen:
    """All that a receiver got."""
    by_path: dict[str, list[bytes]] = {}
    for one in received:
        is_packed = one.headers.get("content-encoding") == "gzip"
        by_path.setdefault(one.path, []).append(
            gzip.decompress(one.body) if is_packed else one.body
        )
    seen: Seen = Counter()
    for path, bodies in by_path.items():
        if path.endswith(("/traces", "/traces/")):
            seen += spans_of(bodies)
        elif path.endswith("/metrics"):
            seen += metrics_of(bodies)
        else:
            seen[("posted", NUMBERS.sub("#", path))] = 1
    return seen


def outcome(setup: str, order: str) -> tuple[Seen, str]:
    """What the program's own receiver got, and what the program wrote."""
    python = ENVIRONMENTS / WITHIN.get(setup, setup) / "bin/python"
    if not python.exists():
        pytest.skip("it is not installed: `make test-tracers` brings it")
    command = [str(python), "-W", "ignore", own_telemetry.__file__, setup, order]
    with RecordingServer() as theirs, Receiver() as ours:
        variables = dict(environment(setup, theirs.url))
        if setup == "distribution":
            command[:0] = [str(python), "-c", DISTRIBUTION]
            if order == "ours-first":
                variables["PYTHONPATH"] = f"{next(iter(autostart.__path__))}/."
        done = subprocess.run(
            [*command, theirs.url, ours.url],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=variables,
        )
        assert done.returncode == 0, done.stderr
        if order != "alone":
            assert ours.spans, done.stderr
        return seen_by(theirs.received), done.stdout


def environment(setup: str, receiver: str) -> Iterator[tuple[str, str]]:
    """The variables of a program."""
    yield from {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}.items()
    if setup == "distribution":
        yield "OTEL_EXPORTER_OTLP_ENDPOINT", receiver
        yield "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
        yield "OTEL_METRIC_EXPORT_INTERVAL", "10000000"


@pytest.fixture(scope="module")
def alone() -> Mapping[str, Seen]:
    return {}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ["theirs-first", "ours-first"])
@pytest.mark.parametrize("setup", own_telemetry.SETUPS)
def test_a_receiver_of_the_programs_own_gets_what_it_gets_without_us(
    alone: dict[str, Seen], setup: str, order: str
) -> None:
    if setup not in alone:
        alone[setup] = outcome(setup, "alone")[0]

    seen, written = outcome(setup, order)

    assert sorted(map(str, (alone[setup] - seen).items())) == []
    assert sorted(map(str, (seen - alone[setup]).items())) == []
    assert written.endswith("faults 0\n")
