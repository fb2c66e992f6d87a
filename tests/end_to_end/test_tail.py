"""The cause of a tail, from spans that a real service received to the answer and the picture."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from pydantic import TypeAdapter

from latencytrace.model import semconv
from latencytrace.service.answers.tail_documents import TailDocument
from tests.support.builders.slow_searches import REQUESTS, slow_searches
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.servers.command_line import latencytrace
from tests.support.servers.running_service import RunningService
from tests.support.simulation.shared_batches import BATCHES, SIZE, shared_batches
from tests.support.waiting import until

MS = 1_000_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that has received them all."""
    with RunningService(tmp_path_factory.mktemp("tail") / "data") as running:
        assert running.post(otlp(*slow_searches())).is_success
        until(lambda: asked(running, 0.95)["requests"] == REQUESTS, running.said)
        yield running


def asked(service: RunningService, quantile: float) -> TailDocument:
    return cast(TailDocument, service.ask(f"/tail?since=1h&quantile={quantile}"))


def test_the_document_names_the_stage_its_share_and_what_the_slow_ones_share(
    service: RunningService,
) -> None:
    document = asked(service, 0.95)

    TypeAdapter(TailDocument).validate_python(document, strict=False)
    first = document["stages"][0]
    assert (document["requests"], document["tail_requests"]) == (REQUESTS, 20)
    assert first["stage"] == "retrieve"
    assert (
        800 * MS
        < (first["low_ns"] or 0)
        <= first["excess_ns"]
        <= (first["high_ns"] or 0)
        < 960 * MS
    )
    assert first["excess_share_ratio"] == pytest.approx(1, abs=0.05)
    assert [(one["key"], one["value"]) for one in document["attributes"]] == [
        ("collection", "big")
    ]
    cause = document["cause"]
    assert cause is not None
    assert (cause["kind"], cause["stage"]) == ("dependency", "retrieve")
    begins = "Slower dependency: 100.0 % of slow requests have collection big"
    assert cause["sentence"].startswith(begins)


def test_examples_are_requests_that_can_be_looked_at(service: RunningService) -> None:
    examples = asked(service, 0.95)["examples"]

    ledgers = [cast(Any, service.ask(f"/requests/{one}"))["ledger"] for one in examples]
    assert len(examples) == 3
    assert all(ledger["retrieve"] > 800 * MS for ledger in ledgers)


def test_a_cohort_without_requests_is_an_answer(service: RunningService) -> None:
    document = service.ask("/tail?since=1h&route=GET%20/nowhere")

    assert (document["requests"], document["cause"], document["threshold_ns"]) == (0, None, None)


def test_too_few_requests_are_said_so(service: RunningService) -> None:
    document = asked(service, 0.99)

    assert (document["needed_requests"], document["cause"]) == (1000, None)


@pytest.mark.parametrize("quantile", ["0.5", "1", "nan", "much"])
def test_a_quantile_that_has_no_tail_is_refused_with_its_bounds(
    service: RunningService, quantile: str
) -> None:
    answer = service.get(f"/api/v1/tail?quantile={quantile}")

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert "quantile" in answer.json()["detail"]


def test_the_command_prints_the_cause_first_and_the_stages_below(
    service: RunningService,
) -> None:
    told = latencytrace("tail", "--quantile", "0.95", "--url", service.url)

    lines = told.stdout.splitlines()
    assert told.returncode == 0
    assert lines[0].startswith("400 requests · slow: 20 above p95, over ")
    assert lines[2].startswith("Slower dependency: ")
    assert "retrieve" in told.stdout.split("stage", 1)[1]


@pytest.fixture(scope="module")
def batched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One whose requests were served four at a time, some beside a long prompt."""
    with RunningService(tmp_path_factory.mktemp("batched") / "data") as running:
        spans = list(shared_batches())
        for first in range(0, len(spans), 600):
            assert running.post(otlp(*spans[first : first + 600])).is_success
        wanted = BATCHES * SIZE
        until(lambda: running.ask("/breakdown")["requests"] == wanted, running.said)
        yield running


def test_what_others_in_shared_steps_cost_the_tail_is_known_and_whose_work_it_was(
    batched: RunningService,
) -> None:
    document = asked(batched, 0.95)

    TypeAdapter(TailDocument).validate_python(document, strict=False)
    beside, excess_ns = document["neighbours"], document["excess_ns"]
    assert beside is not None
    assert excess_ns is not None
    # Of a short one, 0.05 ms for each of 6,600 tokens; of the long one itself, of 900.
    assert 45 * MS < beside["tail_mean_ns"] < 340 * MS
    assert beside["reference_mean_ns"] == pytest.approx(45 * MS, rel=0.1)
    assert 0 < beside["low_ns"] <= beside["excess_ns"] <= beside["high_ns"]
    assert beside["excess_share_ratio"] == pytest.approx(beside["excess_ns"] / excess_ns, abs=0.01)
    (culprit,) = beside["culprits"]
    assert (culprit["key"], culprit["value"]) == ("tenant", "bulk")
    assert culprit["cost_share_ratio"] > 0.8


def test_the_command_says_whose_work_it_was(batched: RunningService) -> None:
    ended = latencytrace("tail", "--quantile", "0.95", "--url", batched.url)

    assert ended.returncode == 0
    assert "Others' work in shared steps: " in ended.stdout
    assert "tenant bulk" in ended.stdout


def test_requests_that_shared_nothing_have_no_neighbours(service: RunningService) -> None:
    assert asked(service, 0.95)["neighbours"] is None


def test_the_page_says_whose_work_it_was(batched: RunningService) -> None:
    page = batched.get("/tail?quantile=0.95")

    assert page.status_code == 200
    assert "Slowed by neighbours" in page.text
    assert "tenant bulk: " in page.text


def test_the_page_says_what_the_programs_threads_waited_for_of_late(
    service: RunningService,
) -> None:
    report = ExportMetricsServiceRequest()
    of_resource = report.resource_metrics.add()
    for key, value in (("service.name", "rag"), ("service.instance.id", "rag-1")):
        of_resource.resource.attributes.add(key=key).value.string_value = value
    metrics = of_resource.scope_metrics.add().metrics
    running = metrics.add(name=semconv.AGENT_RUNNING).gauge.data_points.add(as_int=1)
    running.attributes.add(key=semconv.AGENT_PROVIDER).value.string_value = "ours"
    pressure = metrics.add(name=semconv.AGENT_PRESSURE).gauge.data_points.add(as_double=0.8)
    pressure.attributes.add(key=semconv.PRESSURE_RESOURCE).value.string_value = "cpu"
    assert service.post(report.SerializeToString(), path="/v1/metrics").is_success

    tail, other, health = (
        service.get(path, headers={"Accept": "text/html"}).text
        for path in ("/tail?service=rag", "/tail?service=other", "/health")
    )

    waited = "threads waited for a processor in more than half of the last minute"
    assert waited in tail
    assert waited not in other
    assert "cpu: 80.0 %" in health
