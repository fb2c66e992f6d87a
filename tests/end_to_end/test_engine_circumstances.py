"""An engine's own metrics beside the requests that met them, through the service."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from latencytrace.model import semconv
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.servers.recording import RecordingServer, Response
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

ENGINE = Path(__file__).parents[1] / "service" / "engine_texts" / "vllm.txt"


def send(service: RunningService) -> None:
    """Send a request that begins now."""
    now_ns = time.time_ns()
    span = one_span(
        uuid4().hex,
        start_ns=now_ns,
        end_ns=now_ns + 10**6,
        attributes={semconv.GEN_AI_RESPONSE_MODEL: "smollm2"},
    )
    assert service.post(otlp(span)).is_success


@pytest.mark.long
def test_a_comparison_says_what_the_engine_told_when_requests_began(tmp_path: Path) -> None:
    with (
        RecordingServer(Response(body=ENGINE.read_bytes())) as engine,
        RunningService(
            tmp_path / "data", env={"LATENCYTRACE_SCRAPE": f"{engine.url}/metrics"}
        ) as service,
    ):

        def met() -> dict[str, float | None] | None:
            send(service)  # again and again: one of them begins before a reading
            side = service.ask("/compare?a=model%3Dsmollm2&b=model%3Dsmollm2")["a"]
            assert isinstance(side, dict)
            found: dict[str, float | None] = side["circumstances"]
            return found if found["engine_waiting_requests"] is not None else None

        found = until(met, service.said)

    assert found["engine_waiting_requests"] == 3
    assert found["engine_running_requests"] == 2
    assert found["engine_kv_cache_use_ratio"] == 0.01
    assert found["engine_speculative_acceptance_ratio"] is None
