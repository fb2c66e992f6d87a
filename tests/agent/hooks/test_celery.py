"""The hook of Celery: a real worker over Redis, or over Celery's own memory without one."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from celery import Celery, Task
from celery.contrib.testing.worker import start_worker
from opentelemetry.trace import SpanKind, StatusCode

from latencytrace.agent.hooks.celery import CeleryHook
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.agent.queued_work import as_received, check_waited
from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import python
from tests.support.waiting import until

HOOKS = (CeleryHook,)
PATIENCE_S = 120.0


@contextmanager
def working(app: Celery) -> Iterator[None]:
    with start_worker(app, perform_ping_check=False, loglevel="critical", pool="solo"):
        yield
    app.close()


def app_of() -> Celery:
    return Celery("tasks", broker="memory://", backend="cache+memory://")


def test_a_task_is_one_span_in_the_trace_of_who_sent_it(spans: Spans) -> None:
    app, done = app_of(), threading.Event()
    got: list[object] = []

    @app.task(name="add", ignore_result=True)  # type: ignore[untyped-decorator]  # Celery has no types
    def add(one: int, other: int) -> None:
        got.append(one + other)
        done.set()

    with working(app):
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            add.apply_async((1, 2), headers={"x-own": "kept"})
        assert done.wait(PATIENCE_S)
        spans.wait_for(3)

    (task,) = [span for span in spans.all if span.name == "add"]
    (sending,) = [span for span in spans.all if span.name == "send add"]
    (request,) = [span for span in spans.all if span.name == "request"]
    assert got == [3]
    assert (sending.kind, task.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert (sending.trace_id, sending.parent_id) == (request.trace_id, request.span_id)
    assert (task.trace_id, task.parent_id) == (request.trace_id, sending.span_id)


def test_from_its_sending_to_its_start_a_task_that_is_awaited_was_queued(spans: Spans) -> None:
    app, done = app_of(), threading.Event()

    @app.task(name="work", ignore_result=True)  # type: ignore[untyped-decorator]
    def work() -> None:
        done.set()

    tracer = spans.provider.get_tracer("program")
    with tracer.start_as_current_span("request"):
        work.delay()
        with working(app):  # begins only now
            assert done.wait(PATIENCE_S)
            spans.wait_for(2)

    check_waited(spans, "work")


def test_a_task_that_is_to_run_later_is_not_awaited(spans: Spans) -> None:
    app, done = app_of(), threading.Event()

    @app.task(name="later", ignore_result=True)  # type: ignore[untyped-decorator]
    def later() -> None:
        done.set()

    with working(app):
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            later.apply_async(countdown=0.01)
        assert done.wait(PATIENCE_S)
        spans.wait_for(2)

    assert sorted(spans.names) == ["later", "request"]


def test_a_task_sent_by_nobodys_request_begins_a_trace(spans: Spans) -> None:
    app, done = app_of(), threading.Event()

    @app.task(name="alone", ignore_result=True)  # type: ignore[untyped-decorator]
    def alone() -> None:
        done.set()

    with working(app):
        alone.delay()
        assert done.wait(PATIENCE_S)
        spans.wait_for(1)

    assert (spans.only.name, spans.only.parent_id) == ("alone", 0)
    assert spans.only.status.status_code is StatusCode.UNSET


def test_a_task_that_fails_is_an_error_of_its_span(spans: Spans) -> None:
    app = app_of()
    app.conf.task_always_eager = True

    @app.task(name="failing")  # type: ignore[untyped-decorator]
    def failing() -> None:
        raise LookupError("of the program")

    result = failing.delay()

    assert isinstance(result.result, LookupError)
    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"


def test_an_attempt_that_asks_for_another_and_the_wait_for_it_are_a_retry(spans: Spans) -> None:
    app, done = app_of(), threading.Event()

    @app.task(name="unsteady", bind=True, ignore_result=True)  # type: ignore[untyped-decorator]
    def unsteady(self: Task) -> None:
        if self.request.retries < 1:
            raise self.retry(countdown=0.05)
        done.set()

    with working(app):
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            unsteady.delay()
            assert done.wait(PATIENCE_S)
            until(lambda: spans.names.count("unsteady") == 2)
        spans.wait_for(4)

    first, second = sorted(
        (span for span in spans.all if span.name == "unsteady"), key=lambda span: span.started_ns
    )
    assert second.parent_id == first.span_id
    assert semconv.RETRIES not in first.attributes
    assert second.attributes[semconv.RETRIES] == 1
    received = [
        replace(as_received(span), attributes={**as_received(span).attributes, **span.attributes})
        for span in spans.all
    ]
    ledger = requests_of(received, {})[0].ledger
    assert ledger[Stage.RETRY] == second.started_ns - first.started_ns
    assert ledger[Stage.RETRY] >= 0.05 * 1e9


def test_a_task_that_is_tried_again_is_none(spans: Spans) -> None:
    app = app_of()
    app.conf.task_always_eager = True

    @app.task(name="flaky", bind=True)  # type: ignore[untyped-decorator]
    def flaky(self: Task) -> int:
        if self.request.retries < 1:
            raise self.retry(countdown=0)
        return 1

    result = flaky.delay()

    assert result.get() == 1
    assert [span.status.status_code for span in spans.all] == [StatusCode.UNSET] * 2


@pytest.mark.parametrize("headers", ["text", [("x-own", "kept")], 5], ids=str)
def test_a_message_whose_headers_are_no_mapping_is_worked_on_in_a_trace_of_its_own(
    spans: Spans, headers: object
) -> None:
    app = app_of()

    @app.task(name="odd", bind=True, shared=False)  # type: ignore[untyped-decorator]
    def odd(self: Task) -> object:
        return self.request.headers

    result = odd.apply(headers=headers)

    assert result.get() == headers
    assert (spans.only.name, spans.only.parent_id) == ("odd", 0)


RECYCLED = """
import os, sys
import latencytrace

os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "60000"  # nothing is sent before the end
latencytrace.instrument("worker", endpoint=sys.argv[1], hooks=("celery",))
from billiard.pool import Pool

def work(number):
    with latencytrace.stage("task"):
        return number

if __name__ == "__main__":
    with Pool(2, maxtasksperchild=int(sys.argv[2])) as pool:
        assert sum(pool.map(work, range(8), 1)) == 28
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_process_of_a_worker_that_is_replaced_sends_its_spans_first(
    tmp_path: Path, tasks: int
) -> None:
    script = tmp_path / "recycled.py"
    script.write_text(RECYCLED)

    with Receiver() as receiver:
        done = python(script, receiver.endpoint, str(tasks))

        assert (done.returncode, done.stderr) == (0, "")
        assert [span.name for span in receiver.spans if span.name == "task"] == ["task"] * 8


TERMINATED = """
import os, signal, sys
import latencytrace

os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "60000"  # nothing is sent before the end
latencytrace.instrument("worker", endpoint=sys.argv[1], hooks=("celery",))
from billiard.pool import Pool
from celery import Celery
from celery.concurrency.prefork import process_initializer

app = Celery("shop", broker="memory://", backend="cache+memory://")

def work(number):
    with latencytrace.stage("task"):
        return os.getpid()

if __name__ == "__main__":
    pool = Pool(2, initializer=process_initializer, initargs=(app, "host"))
    pids = set(pool.map(work, range(8), 1))
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    signal.pause()
"""


def test_a_process_of_a_worker_that_is_terminated_sends_its_spans_first(tmp_path: Path) -> None:
    script = tmp_path / "terminated.py"
    script.write_text(TERMINATED)

    with Receiver() as receiver:
        command = [sys.executable, str(script), receiver.endpoint]
        with subprocess.Popen(command, start_new_session=True) as worker:
            try:
                until(lambda: sum(span.name == "task" for span in receiver.spans) == 8)
            finally:  # not by the pool's own end: one of billiard's hangs at times after SIGTERM
                os.killpg(worker.pid, signal.SIGKILL)


TRACED_LATE = """
import sys
import latencytrace
from celery import Celery
from celery.signals import worker_process_init

folders = {"data_folder_in": sys.argv[2], "data_folder_out": sys.argv[2]}
app = Celery("shop", broker="filesystem://", task_ignore_result=True)
app.conf.update(broker_transport_options={**folders, "control_folder": sys.argv[2]})

@worker_process_init.connect
def trace(**_):
    latencytrace.instrument("worker", endpoint=sys.argv[1], hooks=("celery",))

@app.task(name="add")
def add(one, other):
    return one + other

if __name__ == "__main__":
    add.delay(1, 2)
    app.worker_main(["worker", "--concurrency", "1", "--loglevel", "critical"])
"""


def test_tasks_of_a_process_that_begins_to_trace_at_its_start_are_timed(tmp_path: Path) -> None:
    script, messages = tmp_path / "late.py", tmp_path / "messages"
    script.write_text(TRACED_LATE)
    messages.mkdir()

    with Receiver() as receiver:
        command = [sys.executable, str(script), receiver.endpoint, str(messages)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as worker:
            until(lambda: any(span.name == "add" for span in receiver.spans))
            worker.terminate()

    assert worker.returncode == 0
