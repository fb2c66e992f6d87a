"""What programs do to spans that nobody should: nothing raises, nothing is lost uncounted."""

import gc
import random
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opentelemetry import trace
from opentelemetry.trace import Link, Span, StatusCode

from latencytrace.agent.spans.span import RecordedSpan
from latencytrace.agent.start import agent_status, flush
from tests.support.agent.receiving import Receiver, TracedProgram
from tests.support.servers.command_line import python
from tests.support.waiting import PATIENCE_S

MANY = 100_000


class Raising:
    """An object whose every word is an error."""

    def __str__(self) -> str:
        raise RuntimeError("in __str__")

    __repr__ = __str__
    __hash__ = object.__hash__


class RaisingMapping(Mapping[str, object]):
    """Attributes that cannot be read."""

    def __getitem__(self, key: str) -> object:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        return 1


class RaisingError(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("in __str__")


RUBBISH: dict[str, Any] = {
    "a tensor": torch.zeros(1000, 1000),
    "an array": np.zeros((100, 100)),
    "a numpy number": np.float32(1.5),
    "bytes": b"\xff\x00" * 1000,
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "a surrogate": "\ud800 half of one",
    "a long text": "x" * 5_000_000,
    "a long number": 10**5000,
    "an object that raises": Raising(),
    "a list of them": [Raising(), torch.zeros(2), 1],
    "a mapping that raises": RaisingMapping(),
    "a mapping of them": {Raising(): 1, "kept": {"deep": Raising()}},
    "a set": {1, 2},
    "a lock": threading.Lock(),
    "a type": int,
    "none": None,
    "a generator": (number for number in range(3)),
}


@pytest.mark.parametrize("value", RUBBISH.values(), ids=RUBBISH.keys())
def test_a_value_of_any_type_raises_nothing_and_the_span_arrives(
    agent: TracedProgram, value: object
) -> None:
    any_value: Any = value
    with trace.get_tracer("program").start_as_current_span(
        "name", attributes={"a": any_value}
    ) as s:
        s.set_attribute("b", any_value)
        s.set_attributes({"c": any_value, "kept": 1})
        s.add_event("event", {"d": any_value})
        s.add_link(s.get_span_context(), {"e": any_value})

    assert agent.one("name").attributes["kept"] == 1
    assert agent_status().spans_dropped == 0


def rubbish_calls(span: Span) -> None:
    """Every call with what it is not made for."""
    wrong: Any = object()
    raising: Any = RaisingMapping()
    span.set_attributes(wrong)
    span.set_attributes(raising)
    span.set_attribute(wrong, 1)
    span.add_event(wrong, raising)
    span.add_link(wrong)
    span.set_status(wrong)
    span.record_exception(wrong)
    span.record_exception(RaisingError())
    span.update_name(wrong)


@pytest.fixture
def rubbish_is_counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is the program's own doing is counted as it is in production."""
    from latencytrace.agent.guard import FaultCounter

    noted: list[str] = []
    monkeypatch.setattr(FaultCounter, "__call__", lambda _, doing, __: noted.append(doing))
    return noted


@pytest.mark.usefixtures("rubbish_is_counted")
def test_a_call_with_rubbish_raises_nothing(agent: TracedProgram) -> None:
    tracer = trace.get_tracer("program")
    wrong: Any = object()

    with tracer.start_as_current_span("spoiled") as span:
        rubbish_calls(span)
    tracer.start_span(wrong, attributes=wrong).end()
    tracer.start_span("links", links=wrong).end()
    tracer.start_span("kind", kind=wrong).end()
    tracer.start_span("time", start_time=wrong).end()
    tracer.start_span("end").end(wrong)
    tracer.start_span("link", links=[wrong, Link(span.get_span_context())]).end()
    tracer.start_span("fine").end()

    assert agent.one("fine").name == "fine"


def test_an_exception_that_cannot_be_printed_passes_through_and_is_noted(
    agent: TracedProgram,
) -> None:
    with (
        pytest.raises(RaisingError),
        trace.get_tracer("program").start_as_current_span("name"),
    ):
        raise RaisingError

    span = agent.one("name")
    assert (span.status, span.events) == (StatusCode.ERROR, ("exception",))


def test_a_span_ended_twice_and_on_another_thread_is_sent_once(agent: TracedProgram) -> None:
    span = trace.get_tracer("program").start_span("name")
    threads = [threading.Thread(target=span.end) for _ in range(2)]
    threads[0].start()
    threads[0].join()
    threads[1].start()
    threads[1].join()
    span.end()

    assert agent.one("name").name == "name"


def test_a_span_that_is_never_ended_is_freed_and_its_children_are_sent(
    agent: TracedProgram,
) -> None:
    tracer = trace.get_tracer("program")

    def program() -> None:
        span = tracer.start_span("never ended")
        with trace.use_span(span):
            tracer.start_span("child").end()

    program()
    gc.collect()

    left = [one for one in gc.get_referrers(RecordedSpan) if type(one) is RecordedSpan]
    names = [getattr(span, "name", None) for span in left]  # those that others make may have none
    assert "never ended" not in names
    assert agent.names() == ["child"]


def test_a_hundred_thousand_spans_open_at_once_are_sent_or_counted(agent: TracedProgram) -> None:
    tracer = trace.get_tracer("program")

    spans = [tracer.start_span("open") for _ in range(MANY)]
    for span in spans:
        span.end()
    assert flush(PATIENCE_S)

    status = agent_status()
    assert status.spans_sent + status.spans_dropped == MANY
    assert len(agent.receiver.spans) == status.spans_sent >= 65_536


def test_a_thousand_spans_within_each_other_are_a_thousand_spans(agent: TracedProgram) -> None:
    tracer = trace.get_tracer("program")

    def nested(depth: int) -> None:
        with tracer.start_as_current_span(str(depth)):
            if depth:
                nested(depth - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        nested(1_000)
    finally:
        sys.setrecursionlimit(limit)

    assert len(agent.spans(1_001)) == 1_001


def test_a_clock_that_steps_back_bends_no_span(
    agent: TracedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with trace.get_tracer("program").start_as_current_span("name"):
        pass

    span = agent.one("name")
    assert 0 < span.duration_ns < 10_000_000_000
    assert span.start_ns > 1_700_000_000_000_000_000


def test_a_program_that_seeds_its_random_numbers_gets_them_and_its_traces_differ(
    agent: TracedProgram,
) -> None:
    drawn = []
    for _ in range(2):
        random.seed(0)
        with trace.get_tracer("program").start_as_current_span("name"):
            drawn.append(random.getrandbits(32))

    first, second = agent.named("name", 2)
    assert drawn[0] == drawn[1]
    assert first.trace_id != second.trace_id


SHUTDOWN = """
import sys, threading, atexit
import latencytrace

latencytrace.instrument("ending", endpoint=sys.argv[1])

class Late:
    def __del__(self):
        with latencytrace.stage("in __del__"):
            pass

late = Late()
late.self = late

def forever():
    while True:
        with latencytrace.stage("in a daemon"):
            pass

def at_exit():
    with latencytrace.stage("at exit"):
        pass

atexit.register(at_exit)
threading.Thread(target=forever, daemon=True).start()
generator = (latencytrace.stage("x").__enter__() for _ in range(3))
next(generator)
with latencytrace.stage("before"):
    pass
sys.exit(5)
"""


def test_an_interpreter_that_shuts_down_in_the_middle_ends_as_without_us(
    receiver: Receiver, tmp_path: Path
) -> None:
    script = tmp_path / "ending.py"
    script.write_text(SHUTDOWN)

    done = python(script, receiver.endpoint)

    said = [
        line for line in done.stderr.splitlines() if " spans that http" not in line
    ]  # are lost
    assert (done.returncode, said) == (5, [])
    assert {"before", "at exit"} <= {span.name for span in receiver.spans}


def test_a_signal_in_the_middle_of_spans_spoils_none(agent: TracedProgram) -> None:
    tracer = trace.get_tracer("program")
    rung: list[int] = []

    def ring(*_: object) -> None:
        with tracer.start_as_current_span("in a handler"):
            rung.append(1)
        signal.setitimer(signal.ITIMER_REAL, 0.001)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        for _ in range(5_000):
            with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    spans = agent.spans(10_000 + len(rung))
    outer = {span.span_id: span for span in spans if span.name == "outer"}
    inner = [span for span in spans if span.name == "inner"]
    assert len(spans) == 10_000 + len(rung)
    assert all(outer[str(span.parent_id)].trace_id == span.trace_id for span in inner)
