"""The hook of RQ: a real worker over a real Redis."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from latencytrace.agent.hooks.task_queues import RqHook
from latencytrace.agent.spans.provider import SHUTDOWN_S
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked, in_request
from tests.support.agent.queued_work import check_waited
from tests.support.agent.receiving import Receiver
from tests.support.databases.caches import redis_server
from tests.support.servers.command_line import environment

rq = pytest.importorskip("rq")

HOOKS = (RqHook,)

ADD = "tests.agent.hooks.test_rq.add"
FAIL = "tests.agent.hooks.test_rq.fail"


def add(one: int, other: int) -> int:
    """A job."""
    return one + other


def fail(_: str) -> None:
    """One that fails."""
    raise LookupError("of the program")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("rq")) as socket:
        yield socket


@pytest.fixture
def queue(server: str) -> Iterator[Any]:
    with redis.Redis(unix_socket_path=server) as connection:
        yield rq.Queue("work", connection=connection)


def work(queue: Any) -> None:
    """Do what is queued, in this process."""
    rq.SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="ERROR")


def test_from_its_sending_to_its_start_a_job_that_is_awaited_was_queued(
    spans: Spans,
    queue: Any,
) -> None:
    jobs: list[Any] = []

    def send_and_wait() -> None:
        jobs.append(queue.enqueue(ADD, 1, 2, meta={"own": "kept"}))
        work(queue)

    in_request(spans, send_and_wait)

    assert jobs[0].return_value() == 3
    assert jobs[0].get_meta()["own"] == "kept"
    check_waited(spans, ADD)


def test_jobs_that_are_sent_together_are_each_one_span(spans: Spans, queue: Any) -> None:
    many = [rq.Queue.prepare_data(ADD, (number, 1)) for number in range(3)]

    in_request(spans, lambda: queue.enqueue_many(many))
    work(queue)

    assert sorted(spans.names) == sorted([*[ADD] * 3, "request", *[f"send {ADD}"] * 3])


def test_a_job_that_fails_is_an_error_of_its_span(spans: Spans, queue: Any) -> None:
    queue.enqueue(FAIL, "a secret")  # outside of any request
    work(queue)

    assert (spans.only.name, spans.only.parent_id) == (FAIL, 0)
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in attribute_text(spans)


def test_jobs_that_are_queued_later_go_on_with_the_trace_of_who_sent_them(
    spans: Spans,
    queue: Any,
) -> None:
    own = {"own": "kept"}
    jobs: list[Any] = []

    def send() -> None:
        first = queue.enqueue(ADD, 1, 2)
        jobs.append(queue.enqueue(ADD, 3, 4, depends_on=first, meta=own))
        jobs.append(queue.enqueue_in(timedelta(hours=1), ADD, 5, 6))

    in_request(spans, send)
    jobs.append(queue.enqueue_at(datetime.now(UTC) + timedelta(hours=1), ADD, 7, 8, meta=own))
    for later in jobs[1:]:  # as a scheduler does, in a process of its own
        queue.scheduled_job_registry.remove(later)
        queue.enqueue_job(queue.fetch_job(later.id))
    work(queue)

    request = next(span for span in spans.all if span.name == "request")
    done = [span for span in spans.all if span.name == ADD]
    assert own == {"own": "kept"}
    assert len(done) == 4
    assert [span.trace_id == request.trace_id for span in done].count(True) == 3
    assert [span.parent_id for span in done].count(request.span_id) == 2
    assert [span.parent_id for span in done].count(0) == 1


def test_a_process_of_one_job_waits_for_its_spans_no_longer_than_an_exit_does(
    queue: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[int] = []

    class Flushed:
        def force_flush(self, timeout_millis: int) -> bool:
            limits.append(timeout_millis)
            return False

    class Horse(rq.SimpleWorker):  # type: ignore[misc, name-defined]  # it need not be there
        def perform_job(self, *args: Any) -> bool:
            self._is_horse = True  # no longer than the job: its parent closes what it has open
            try:
                return bool(super().perform_job(*args))
            finally:
                self._is_horse = False

    monkeypatch.setattr("latencytrace.agent.toolkit.queues.messages.get_tracer_provider", Flushed)
    queue.enqueue(ADD, 1, 2)
    with hooked(RqHook):
        Horse([queue], connection=queue.connection).work(burst=True, logging_level="ERROR")

    assert limits == [SHUTDOWN_S * 1000]


FORKING = f"""
import latencytrace, redis, rq, sys
import latencytrace.agent.hooks.task_queues as hook
hook.SHUTDOWN_S = 100.0  # on a busy machine
latencytrace.instrument()
with redis.Redis(unix_socket_path=sys.argv[1]) as connection:
    queue = rq.Queue("forked", connection=connection)
    queue.enqueue("{ADD}", 1, 2)
    rq.Worker([queue], connection=connection).work(burst=True, logging_level="ERROR")
"""


def test_a_process_of_one_job_sends_its_span_before_it_ends(server: str, tmp_path: Path) -> None:
    with Receiver() as receiver:
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORKING, server],
            env=environment(
                OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
                OTEL_BSP_SCHEDULE_DELAY="600000",  # nothing is sent by the way
                PYTHONPATH=str(Path(__file__).parents[3]),
            ),
            cwd=tmp_path,
            check=True,
            timeout=200,
        )

    assert [span.name for span in receiver.spans if span.name == ADD] == [ADD]
