"""A service that has seen a bit of everything, scraped by the real Prometheus."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from latencytrace.model import Attributes, Span, SpanKind, Stage, StatusCode, semconv
from tests.service.reports.test_agents import budget_report
from tests.support.builders.gpu_requests import request, whole_sample
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.servers.running_prometheus import RunningPrometheus
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

MS = 1_000_000
USUAL = 110  # requests, enough to know which are the slowest hundredth
CONFIG = Path(__file__).parents[3] / "dashboards" / "prometheus.yaml"
ENGINE = CONFIG.parents[1] / "tests" / "service" / "engine_texts" / "vllm.txt"


@dataclass(frozen=True, slots=True)
class Scraped:
    """The two of them, and the requests that were sent."""

    service: RunningService
    prometheus: RunningPrometheus
    trace_ids: frozenset[str]


class BusyEngine:
    """Answers as vLLM does, with more input tokens and drafts each time."""

    def __init__(self) -> None:
        self._text = ENGINE.read_text("utf-8")
        self._input_tokens = 725

    def __call__(self, _: Received) -> Response:
        """Answer."""
        text = self._text.replace(" 725.0", f" {self._input_tokens}.0")
        for kind in ("draft", "accepted"):
            name = f"vllm:spec_decode_num_{kind}_tokens_total"
            text += f'{name}{{model_name="smollm2"}} {self._input_tokens}.0\n'
        self._input_tokens += 100
        return Response(body=text.encode())


@contextmanager
def scraped_service(folder: Path) -> Iterator[Scraped]:
    """Send traffic before and after the first scrape, so that every rate is known."""
    promised = objectives_yaml(folder, threshold_s=0.2)
    with (
        RecordingServer(BusyEngine()) as engine,
        RunningService(
            folder / "data",
            *("--objectives", str(promised)),
            env={"LATENCYTRACE_SCRAPE": f"{engine.url}/metrics"},
        ) as service,
    ):
        first = sent(service, [chat(100) for _ in range(USUAL)])
        until(lambda: service.metric("latencytrace_requests_total") == len(first), service.said)
        first += send(service)
        until(lambda: service.metric("latencytrace_requests_total") == len(first), service.said)
        config = prometheus_config(service.url.removeprefix("http://"))
        with RunningPrometheus(folder / "prometheus", config) as prometheus:
            _until_scraped(prometheus, len(first))
            second = send(service)
            _until_scraped(prometheus, len(first) + len(second))
            yield Scraped(service, prometheus, frozenset(first + second))


def prometheus_config(target: str) -> dict[str, Any]:
    """The file that we ship, in a hurry and with another target."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    return {key: config[key] for key in ("global", "scrape_configs")}


def send(service: RunningService) -> list[str]:
    """Send requests of every kind, one with an orphan, a post that is refused and reports.

    Returns:
        The requests' trace ids.
    """
    assert service.post(b"no OTLP").status_code == 400
    for told in (budget_report(), request([whole_sample()])):
        assert service.post(told.SerializeToString(), path="/v1/metrics").is_success
    return sent(service, [chat(100), chat(100), chat(300), chat(500, failed=True)])


def sent(service: RunningService, chats: Sequence[Sequence[Span]]) -> list[str]:
    """Send requests, one with an orphan.

    Returns:
        Their trace ids.
    """
    spans = [span for spans in chats for span in spans]
    spans.append(replace(spans[-1], span_id=uuid4().hex[:16], parent_id=uuid4().hex[:16]))
    assert service.post(otlp(*spans)).is_success
    return sorted({span.trace_id for span in spans})


def chat(duration_ms: int, *, failed: bool = False) -> list[Span]:
    """A request that ended just now: a fifth each of retrieval and prefill, then decoding."""
    trace_id, root_id = uuid4().hex, uuid4().hex[:16]
    end_ns = time.time_ns()
    start_ns = end_ns - duration_ms * MS
    fifth_ns = duration_ms * MS // 5
    root = one_span(trace_id, root_id, start_ns=start_ns, end_ns=end_ns)
    if failed:
        root = replace(root, status=StatusCode.ERROR)
    generation: Attributes = {
        semconv.GEN_AI_RESPONSE_MODEL: "tiny",
        semconv.GEN_AI_USAGE_INPUT_TOKENS: 20,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 10,
    }
    parts: tuple[tuple[Stage, int, int, Attributes], ...] = (
        (Stage.RETRIEVE, 0, 1, {}),
        (Stage.PREFILL, 1, 2, {}),
        (Stage.DECODE, 2, 5, generation),
    )
    return [
        root,
        *(
            one_span(
                trace_id,
                uuid4().hex[:16],
                parent_id=root_id,
                name=stage.value,
                kind=SpanKind.INTERNAL,
                start_ns=start_ns + begin * fifth_ns,
                end_ns=start_ns + end * fifth_ns,
                attributes={semconv.STAGE: stage.value, **more},
            )
            for stage, begin, end, more in parts
        ),
    ]


def _until_scraped(prometheus: RunningPrometheus, requests: int) -> None:
    until(
        lambda: prometheus.value("sum(latencytrace_requests_total)") == requests, prometheus.said
    )
