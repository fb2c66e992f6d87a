"""The hook of processes; that the span arrives there is the table's to show."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
from opentelemetry.trace import get_current_span

from latencytrace.agent.hooks.processes import ProcessesHook
from tests.agent.hooked import hooked

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

    assert told.get(timeout=10) == "argument"
    assert (process.exitcode, failed.exitcode) == (0, 3)
