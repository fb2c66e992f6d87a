"""Waking a thread, also by a signal's handler that interrupts whatever is under way."""

import signal
import sys
import threading
from collections.abc import Iterator
from itertools import count
from types import CodeType, FrameType
from typing import Any

import pytest

from latencytrace.agent.export import exporter as exporter_module
from latencytrace.agent.export.exporter import Exporter
from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.guard import raise_fault
from latencytrace.agent.process import wake
from latencytrace.agent.process.wake import Wake
from tests.support.agent.receiving import Receiver
from tests.support.waiting import PATIENCE_S

OURS = (exporter_module.__file__, wake.__file__, threading.__file__)


@pytest.fixture
def exporter(receiver: Receiver) -> Iterator[Exporter]:
    exporter = Exporter(
        OtlpEncoder({"service.name": "program"}),
        HttpSender(f"{receiver.endpoint}/v1/traces", {}, PATIENCE_S),
        queue=SpanQueue(10, 1 << 20),
        interval_s=PATIENCE_S,
        on_fault=raise_fault,
    )
    yield exporter
    exporter.stop(PATIENCE_S)


def test_a_call_is_noticed_once_whether_it_comes_before_or_while_a_thread_waits() -> None:
    wake, noticed = Wake(), threading.Event()
    wake.set()
    wake.set()
    before, again = wake.wait(PATIENCE_S), wake.wait(0)
    thread = threading.Thread(target=lambda: noticed.set() if wake.wait(PATIENCE_S) else None)
    thread.start()

    wake.set()

    thread.join(PATIENCE_S)
    assert (before, again, noticed.is_set()) == (True, False, True)


def test_a_signals_handler_may_flush_wherever_it_interrupts_a_flush(exporter: Exporter) -> None:
    outcomes: list[bool] = []
    codes: set[CodeType] = set()

    def flush_in_handler(*_: object) -> None:
        outcomes.append(exporter.flush(PATIENCE_S))

    def flush_interrupted_at(step: int) -> bool:
        """Raise the signal at one of the interpreter's steps; tell whether there are so many."""
        steps = count()

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename not in OURS:
                return None
            codes.add(frame.f_code)
            frame.f_trace_opcodes = True
            if event == "opcode" and next(steps) == step:
                sys.settrace(None)
                frame.f_trace = None
                signal.raise_signal(signal.SIGUSR1)
            return trace

        sys.settrace(trace)
        try:
            assert exporter.flush(PATIENCE_S)
        finally:
            sys.settrace(None)
        return next(steps) > step

    before = signal.signal(signal.SIGUSR1, flush_in_handler)
    try:
        steps = next(step for step in count() if not flush_interrupted_at(step))
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert Exporter.flush.__code__ in codes
    assert outcomes == [True] * steps
