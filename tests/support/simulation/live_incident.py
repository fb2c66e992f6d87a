"""Requests that become slow, and a Prometheus and an Alertmanager that are told of it.

Every tenth scrape fails.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast
from uuid import uuid4

import httpx
import yaml

from latencytrace.cli.rule_files.prometheus import RuleSettings, rules_document
from latencytrace.model import AlertKind, Objective, Span, SpanKind, Stage, semconv
from latencytrace.model.objective import window_text
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.servers.running_service import RunningService
from tests.support.waiting import PATIENCE_S

MS = 1_000_000
EVERY_S = 0.5
A_TURN = 10  # requests


def chat(slow: Stage | None) -> list[Span]:
    """A request of 60 ms; a slow one spends 400 ms more in one stage."""
    trace_id, root_id = uuid4().hex, uuid4().hex[:16]
    end_ns = time.time_ns()
    lengths = {Stage.RETRIEVE: 30 * MS, Stage.DECODE: 30 * MS}
    if slow is not None:
        lengths[slow] += 400 * MS
    start_ns = at_ns = end_ns - sum(lengths.values())
    spans = [one_span(trace_id, root_id, start_ns=start_ns, end_ns=end_ns)]
    for stage, length_ns in lengths.items():
        spans.append(
            one_span(
                trace_id,
                uuid4().hex[:16],
                parent_id=root_id,
                name=stage.value,
                kind=SpanKind.INTERNAL,
                start_ns=at_ns,
                end_ns=at_ns + length_ns,
                attributes={semconv.STAGE: stage.value},
            )
        )
        at_ns += length_ns
    return spans


class Users:
    """Send requests at a steady pace, which are slow as long as that is wished for."""

    def __init__(self, service: RunningService) -> None:
        self.slow: Stage | None = None
        self.slow_traces: dict[str, Stage] = {}
        self._service = service
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            slow = self.slow
            requests = [chat(slow) for _ in range(A_TURN)]
            if slow is not None:
                self.slow_traces.update((spans[0].trace_id, slow) for spans in requests)
            self._service.post(otlp(*itertools.chain(*requests)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


@contextmanager
def scraped(service: RunningService) -> Iterator[str]:
    """Where the metrics of the service are, but for every tenth time."""
    count = itertools.count(1)

    def answer(_: Received) -> Response:
        if next(count) % 10 == 0:
            return Response(status=503)
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            found = client.get(f"{service.url}/metrics", headers={"accept": "text/plain"})
        return Response(body=found.content, headers={"content-type": "text/plain; version=0.0.4"})

    with RecordingServer(answer) as server:
        yield server.url


def prometheus_config(
    folder: Path,
    target: str,
    alertmanager: str | None,
    objective: Objective,
    settings: RuleSettings,
) -> dict[str, Any]:
    """Scrape the service, and tell that Alertmanager what the rules of an objective find."""
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(rules_document([objective], settings)))
    return {
        "global": {"scrape_interval": window_text(settings.scrape_ns)},
        "rule_files": [str(rules)],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]
            if alertmanager
            else []
        },
        "scrape_configs": [
            {
                "job_name": "latencytrace",
                "honor_labels": True,
                "static_configs": [{"targets": [target.removeprefix("http://")]}],
            }
        ],
    }


def told(receiver: RecordingServer) -> list[dict[str, Any]]:
    """The messages of pages that Alertmanager sent."""
    documents = cast("list[dict[str, Any]]", receiver.documents)
    return [
        one for one in documents if one["commonLabels"].get("alertname") == str(AlertKind.BURN)
    ]
