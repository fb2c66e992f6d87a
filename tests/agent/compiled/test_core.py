"""The core itself: when it is used, and what stands in for the functions in Python."""

import inspect
import os
import subprocess
import sys

import pytest

import latencytrace
from latencytrace.agent.compiled.core import core
from latencytrace.agent.spans.attributes import Deferred
from latencytrace.agent.spans.tracer import RecordingTracer
from latencytrace.agent.timing.intervals import NotedIntervals
from latencytrace.agent.timing.recorder import Recorder, Timing


@pytest.mark.parametrize(("setting", "used"), [("0", "False"), ("", "True")])
def test_a_setting_leaves_it_out_and_the_status_says_so(setting: str, used: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import latencytrace as l; print(l.agent_status().compiled)"],
        env={**os.environ, "LATENCYTRACE_COMPILED": setting},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == used


def test_what_stands_in_for_a_function_looks_like_it() -> None:
    start = RecordingTracer.start_span

    assert latencytrace.agent_status().compiled
    assert start.__name__ == "start_span"
    assert "name" in inspect.signature(start).parameters
    assert (start.__doc__ or "").startswith("Start a span")
    assert Timing.activate.__wrapped__ is not Timing.activate  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [(), (1,), ("a", "b", "c"), (None, None)], ids=str)
def test_a_call_that_is_wrong_fails_as_in_python(wrong: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, AttributeError)):
        Timing.end(*wrong)  # type: ignore[arg-type]


def test_another_number_of_classes_is_refused() -> None:
    assert core is not None

    with pytest.raises(TypeError, match="3 arguments are taken"):
        core.bind_recorder(Recorder, Timing)


def test_a_key_that_is_no_text_is_refused() -> None:
    assert core is not None

    with pytest.raises(TypeError, match="7 is no text"):
        core.bind_deferred(Deferred, NotedIntervals, 7)


@pytest.mark.parametrize("given", [(), (len, print, print)], ids=str)
def test_a_function_of_another_number_of_parts_is_refused(given: tuple[object, ...]) -> None:
    assert core is not None

    with pytest.raises(TypeError, match="deactivate expected"):
        core.deactivate_timing(*given)


def test_another_interpreter_of_the_process_does_without() -> None:
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    pytest.importorskip(name)
    asked = "import latencytrace as l; print(l.agent_status().compiled)"
    run = "exec" if sys.version_info >= (3, 13) else "run_string"
    program = f"import {name} as i; {asked}; i.{run}(i.create(), {asked!r})"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True", "False"]
