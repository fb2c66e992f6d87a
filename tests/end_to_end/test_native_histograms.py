"""A real Prometheus that asks for native histograms is given them, with exemplars."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from latencytrace.model import Span
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.running_prometheus import RunningPrometheus
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs/pages/prometheus-grafana.md"
MS = 1_000_000
HISTOGRAM = "latencytrace_request_duration_seconds"
# One fast, the others all between two classic buckets: 1 and 1.5 s.
DURATIONS_MS = [100, *range(1010, 1500, 10)]


def request_of(duration_ms: int) -> Span:
    """A request that ends now."""
    end_ns = time.time_ns()
    return one_span(
        uuid4().hex, uuid4().hex[:16], start_ns=end_ns - duration_ms * MS, end_ns=end_ns
    )


def config(service: RunningService) -> dict[str, Any]:
    target = service.url.removeprefix("http://")
    scraped = {
        "job_name": "latencytrace",
        "honor_labels": True,
        "static_configs": [{"targets": [target]}],
    }
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": [scraped]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("service") / "data") as service:
        service.post(otlp(*map(request_of, DURATIONS_MS)))
        until(
            lambda: service.metric("latencytrace_requests_total") == len(DURATIONS_MS),
            service.said,
        )
        yield service


def test_prometheus_stores_native_histograms_with_fine_quantiles_and_exemplars(
    service: RunningService, tmp_path: Path
) -> None:
    with RunningPrometheus(tmp_path, config(service), "native-histograms") as prometheus:
        count = until(lambda: prometheus.value(f"histogram_count({HISTOGRAM})"))
        total_s = prometheus.value(f"histogram_sum({HISTOGRAM})")
        median_s = prometheus.value(f"histogram_quantile(0.5, {HISTOGRAM})")
        is_up = prometheus.value("up")
        requests = prometheus.value("latencytrace_requests_total")
        now_s = time.time()
        shown = until(
            lambda: prometheus.ask(
                "query_exemplars", query=HISTOGRAM, start=now_s - 600, end=now_s + 600
            )
        )

    assert (is_up, count, requests) == (1, len(DURATIONS_MS), len(DURATIONS_MS))
    assert total_s == pytest.approx(sum(DURATIONS_MS) / 1000)
    assert median_s == pytest.approx(1.25, rel=0.05)
    assert len(shown[0]["exemplars"][0]["labels"]["trace_id"]) == 32


def test_what_prometheus_hands_on_has_the_same_counts_and_exemplars(tmp_path: Path) -> None:
    block = PAGE.read_text("utf-8").partition("### Handed on\n")[2].split("```")[1]
    handed_on = yaml.safe_load(block.removeprefix("yaml"))
    now_s = time.time()
    with (
        RunningService(tmp_path / "service") as service,
        RunningPrometheus(tmp_path / "kept", {}, "native-histograms", takes_writes=True) as kept,
    ):
        handed_on["remote_write"][0]["url"] = f"{kept.url}/api/v1/write"
        scraping = {**config(service), **handed_on}

        posted: list[object] = []

        def shown() -> Any:
            # What was scraped before it begins to hand on stays where it is.
            posted.append(service.post(otlp(request_of(100))))
            return kept.ask("query_exemplars", query=HISTOGRAM, start=now_s - 600, end=now_s + 600)

        with RunningPrometheus(tmp_path / "scraping", scraping, "native-histograms"):
            exemplars = until(shown)
            until(lambda: kept.value("latencytrace_requests_total") == len(posted), service.said)
            until(lambda: kept.value(f"histogram_count({HISTOGRAM})") == len(posted), service.said)

    assert len(exemplars[0]["exemplars"][0]["labels"]["trace_id"]) == 32


def test_prometheus_stores_classic_buckets_where_it_asks_for_no_others(
    service: RunningService, tmp_path: Path
) -> None:
    with RunningPrometheus(tmp_path, config(service)) as prometheus:
        within = until(lambda: prometheus.value(f'{HISTOGRAM}_bucket{{le="1.0"}}'))
        every = prometheus.value(f"{HISTOGRAM}_count")

    assert (within, every) == (1, len(DURATIONS_MS))
