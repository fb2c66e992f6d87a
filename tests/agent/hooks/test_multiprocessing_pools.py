"""The hook of multiprocessing's pools; that the span arrives there is the table's to show."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.pool import Pool, ThreadPool

import pytest
from opentelemetry.trace import get_current_span

from latencytrace.agent.hooks.multiprocessing_pools import MultiprocessingPoolsHook
from latencytrace.agent.hooks.processes import ProcessesHook
from latencytrace.agent.hooks.threads import ThreadsHook
from tests.support.agent.hooked import Spans, hooked

POOLS = [
    pytest.param(multiprocessing.get_context("fork").Pool, id="forking"),
    pytest.param(ThreadPool, id="threads"),
]


def current_trace_id(_: int = 0) -> int:
    """What is current where it is called."""
    return get_current_span().get_span_context().trace_id


def failing() -> None:
    """Raise."""
    raise LookupError("of the program")


def made_in_a_request(make: Callable[[int], Pool], spans: Spans) -> Pool:
    with spans.provider.get_tracer("program").start_as_current_span("request"):
        return make(1)


@pytest.mark.parametrize("make", POOLS)
def test_a_call_keeps_its_arguments_its_result_and_its_error(make: Callable[[int], Pool]) -> None:
    with (
        hooked(MultiprocessingPoolsHook) as spans,
        make(1) as pool,
        spans.provider.get_tracer("program").start_as_current_span("request"),
    ):
        told = pool.apply(divmod, (7, 2)), pool.starmap(divmod, [(7, 2), (9, 4)])
        with pytest.raises(LookupError, match="of the program"):
            pool.apply(failing)

    assert told == ((3, 1), [(3, 1), (2, 1)])


@pytest.mark.parametrize("make", POOLS)
def test_a_pool_that_a_request_makes_serves_others_too(make: Callable[[int], Pool]) -> None:
    with (
        hooked(ThreadsHook, ProcessesHook, MultiprocessingPoolsHook) as spans,
        made_in_a_request(make, spans) as pool,
    ):
        with spans.provider.get_tracer("program").start_as_current_span("another"):
            inside = pool.apply(current_trace_id), *pool.imap(current_trace_id, [1])
        outside = pool.apply(current_trace_id), *pool.imap(current_trace_id, [1])

    assert inside == (spans.all[-1].trace_id,) * 2
    assert outside == (0, 0)
