"""Ray's tasks and actors, where it is installed: Ray's own hook starts us in its workers."""

from pathlib import Path

import pytest
from opentelemetry import trace

import latencytrace
from tests.support.agent.receiving import TracedProgram

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "propagation.md"


def test_ray_has_its_row_in_the_docs() -> None:
    assert (
        "| Tasks and actors of Ray, which is configured to trace | kept | kept |"
        in PAGE.read_text()
    )


@pytest.mark.batchers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(180)  # Ray takes its time to start
def test_tasks_and_actors_of_ray_stay_in_the_trace_of_their_request(
    agent: TracedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", agent.receiver.endpoint)

    def work() -> None:
        with trace.get_tracer("program").start_as_current_span("work"):
            pass

    class Actor:
        def work(self) -> None:
            with trace.get_tracer("program").start_as_current_span("work"):
                pass

    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        _tracing_startup_hook="latencytrace:instrument",
    )
    try:
        with latencytrace.stage("request"):
            ray.get(ray.remote(work).remote())
            ray.get(ray.remote(Actor).remote().work.remote())
        found = agent.named("work", 2)
    finally:
        ray.shutdown()

    request = agent.one("request")
    assert {span.trace_id for span in found} == {request.trace_id}
    assert {span.resource["process.pid"] for span in found} != {request.resource["process.pid"]}
