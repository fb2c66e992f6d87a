"""The hook of processes; that the span arrives there is the table's to show."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkProcess

import pytest
from opentelemetry.trace import get_current_span

from latencytrace.agent.hooks.processes import ProcessesHook
from tests.support.agent.hooked import hooked
from tests.support.waiting import PATIENCE_S

FORKING = multiprocessing.get_context("fork")


def current_trace_id() -> int:
    """What is current where it is called."""
    return get_current_span().get_span_context().trace_id


def failing() -> None:
    """Raise."""
    raise LookupError("of the program")


def test_a_task_of_a_pool_keeps_its_arguments_its_result_and_its_error() -> None:
    with hooked(ProcessesHook) as spans, ProcessPoolExecutor(1, mp_context=FORKING) as pool:
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            told = pool.submit(divmod, 7, 2).result()
            inside = pool.submit(current_trace_id).result()
            with pytest.raises(LookupError, match="of the program"):
                pool.submit(failing).result()
        outside = pool.submit(current_trace_id).result()

    assert told == (3, 1)
    assert (inside, outside) == (spans.only.trace_id, 0)


def test_a_process_keeps_its_arguments_and_its_exit_code() -> None:
    told = FORKING.Queue()
    with hooked(ProcessesHook) as spans:
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            process = FORKING.Process(target=told.put, args=("argument",))
            process.start()
            failed = FORKING.Process(target=exit, args=(3,))
            failed.start()
        process.join()
        failed.join()

    assert told.get(timeout=PATIENCE_S) == "argument"
    assert (process.exitcode, failed.exitcode) == (0, 3)


class Running(ForkProcess):
    """A process of a class of its own."""

    def run(self) -> None:
        """Exit by whether a span is current."""
        raise SystemExit(current_trace_id() != 0)


def test_a_process_of_a_class_of_its_own_is_left_as_it_was() -> None:
    with hooked(ProcessesHook) as spans:
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            process = Running()
            process.start()
        process.join()

    assert process.exitcode == 1
    assert "run" not in vars(process)


def test_a_pool_that_a_request_makes_serves_others_too() -> None:
    spawning = multiprocessing.get_context("spawn")
    with hooked(ProcessesHook) as spans, ProcessPoolExecutor(1, mp_context=spawning) as pool:
        with spans.provider.get_tracer("program").start_as_current_span("request"):
            inside = pool.submit(current_trace_id).result()
        outside = pool.submit(current_trace_id).result()

    assert (inside, outside) == (spans.only.trace_id, 0)
