"""When the process itself keeps a request waiting: under a real server, nothing else runs."""

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context as Variables
from contextvars import copy_context
from pathlib import Path

import pytest
from fastapi import FastAPI
from opentelemetry.context import Context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import enter
from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.agent.timing.processor_waits import ProcessorWaits
from latencytrace.agent.timing.runtime_gaps import GAPS, GARBAGE, LOOP, OpenRequests
from latencytrace.model import Stage, semconv
from latencytrace.model.packed import unpack_intervals, unpack_named
from tests.support.agent.gaps import gaps_ns
from tests.support.agent.receiving import ReceivedSpan, TracedProgram
from tests.support.agent.told_schedstat import ToldSchedstat
from tests.support.servers.serving import get, serving

MS = 1_000_000
HELD_S = 0.2
HELD_NS = round(HELD_S * 1e9)


def own_pauses(span: ReceivedSpan) -> int:
    packed = str(span.attributes.get(semconv.INTERVALS, ""))
    found = unpack_intervals(packed, span.start_ns)
    return sum(interval.stage is Stage.RUNTIME for interval in found)


def fail(doing: str, fault: BaseException) -> None:
    raise AssertionError(doing) from fault


def paired(first: Callable[[], object]) -> FastAPI:
    """`/one` does something once `/other` waits for it."""
    app = FastAPI()
    arrived, done = asyncio.Event(), asyncio.Event()

    @app.get("/other")
    async def other() -> None:
        arrived.set()
        await done.wait()

    @app.get("/one")
    async def one() -> None:
        await arrived.wait()
        done.set()
        first()
        await asyncio.sleep(0)  # it goes on, too

    return app


def ask_both(app: FastAPI, loop: str = "asyncio") -> None:
    with serving(app, loop=loop) as address, ThreadPoolExecutor(2) as clients:
        for answer in [clients.submit(get, f"{address}/{path}") for path in ("one", "other")]:
            answer.result()


@pytest.mark.usefixtures("late_is_in_time")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_waits_for_a_held_loop_has_a_gap_and_who_holds_it_none(
    agent: TracedProgram, loop: str
) -> None:
    ask_both(paired(lambda: time.sleep(HELD_S)), loop)

    waited, held = agent.one("GET /other"), agent.one("GET /one")
    assert gaps_ns(waited)[LOOP] >= HELD_NS
    # It may have waited, too, yet not while it held the loop itself.
    assert gaps_ns(held).get(LOOP, 0) <= held.duration_ns - HELD_NS


def waits(holds: Sequence[tuple[int, int]], resumed_ns: int) -> list[tuple[str, int, int]]:
    """The gaps of a request that goes on at a time, after others have held its loop."""
    requests = OpenRequests(on_fault=fail)
    waiting = requests.begin(on_loop=True)
    theirs = copy_context()
    theirs.run(enter, Context({GAPS: waiting}))
    for start_ns, end_ns in holds:
        requests.loop_held(Variables(), start_ns, end_ns)
    requests.resumed(theirs, resumed_ns)
    requests.end(waiting)
    described = waiting.described(0, IntervalRecorder())
    return list(unpack_named(str(described.get(semconv.RUNTIME_GAPS, "")), 0))


def test_a_short_hold_that_follows_does_not_end_the_wait_for_a_long_one() -> None:
    found = waits([(0, 1_000_000_000), (1_001_000_000, 1_002_000_000)], 1_050_000_000)

    assert found == [(LOOP, 0, 1_050_000_000)]


def test_a_loop_that_is_held_while_a_request_waits_for_something_else_is_no_gap() -> None:
    assert waits([(0, 1_000_000_000)], 1_099_999_999) == [(LOOP, 0, 1_099_999_999)]
    assert waits([(0, 1_000_000_000)], 1_100_000_000) == []


def test_what_the_scheduler_alone_held_up_is_told_from_what_a_callback_held(
    tmp_path: Path,
) -> None:
    told, requests = ToldSchedstat(tmp_path), OpenRequests(on_fault=fail)
    requests.processor = processor = ProcessorWaits(told.path)
    at_ns = monotonic_ns()
    processor.read()

    told.wait(30 * MS)
    requests.loop_held(Variables(), at_ns, at_ns + 40 * MS, fail)
    told.wait(200 * MS)
    begins_ns = at_ns + 1_000 * MS  # what it waited may have been before
    requests.loop_held(Variables(), begins_ns, begins_ns + 300 * MS, fail)

    waits = [
        requests.holds.wait(at_ns, at_ns + 40 * MS),
        requests.holds.wait(begins_ns, begins_ns + 300 * MS),
    ]
    assert [(one.by, one.processor_ns) for one in waits if one] == [
        ("fail", 30 * MS),
        ("fail", 0),
    ]
    assert processor.likely_by_ns > at_ns
    processor.reset_after_fork()


def test_a_collection_is_a_gap_of_all_and_an_interval_of_who_set_it_off(
    agent: TracedProgram,
) -> None:
    def collect() -> None:
        gc.callbacks.append(linger)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(linger)

    def linger(phase: str, _: object) -> None:
        if phase == "start":
            time.sleep(0.002)

    ask_both(paired(collect))

    assert gaps_ns(agent.one("GET /other"))[GARBAGE] >= 1_000_000
    assert own_pauses(agent.one("GET /one")) >= 1


def test_collections_are_watched_only_while_a_request_is_under_way(agent: TracedProgram) -> None:
    app = FastAPI()
    before = list(gc.callbacks)

    @app.get("/watched")
    async def watched() -> int:
        return len(gc.callbacks)

    with serving(app, loop="asyncio") as address:
        answer = get(f"{address}/watched")

    assert int(answer.text) == len(before) + 1
    assert gc.callbacks == before
    assert agent.one("GET /watched").duration_ns > 0
