"""Phases of a process's start, by its first spans and by what Linux tells of processes."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from opentelemetry.trace import SpanKind

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.reporting.start_phases import StartPhases, process_began_ns
from latencytrace.agent.timing.starting import Starting
from latencytrace.model.stage import Stage
from tests.support.agent.hooked import Spans

SECOND_NS = 10**9
MACHINE, FIRST, SELF = "", "1", "self"


def began(**at_s: float | None) -> Mapping[str, int | None]:
    """When the machine, the container's first process and this one began."""
    usual = {"machine": -9_000.0, "first": -20.0, "self": -12.0} | at_s
    names = {"machine": MACHINE, "first": FIRST, "self": SELF}
    return {
        names[name]: None if second is None else round(second * SECOND_NS)
        for name, second in usual.items()
    }


def started_up(began_s: float, ended_s: float) -> Starting:
    starting = Starting()
    starting.began_ns, starting.ended_ns = (round(one * SECOND_NS) for one in (began_s, ended_s))
    return starting


class Started:
    """The spans of a process that starts, at seconds of its monotonic clock."""

    def __init__(
        self, starting: Starting | None = None, times: Mapping[str, int | None] | None = None
    ) -> None:
        self._spans = Spans()
        times = times or began()
        self.phases = StartPhases(lambda: starting or Starting(), times.get)

    def load(self, start_s: float, end_s: float) -> bool:
        return self._saw("from_pretrained", start_s, end_s, Stage.LOAD)

    def serve(self, start_s: float, end_s: float, name: str = "POST /chat") -> bool:
        return self._saw(name, start_s, end_s, kind=SpanKind.SERVER)

    def _saw(
        self,
        name: str,
        start_s: float,
        end_s: float,
        stage: Stage | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> bool:
        start_ns, end_ns = round(start_s * SECOND_NS), round(end_s * SECOND_NS)
        self._spans.recorder.start(name, stage, kind=kind, started_ns=start_ns).end(end_ns)
        return self.phases.saw([self._spans.all[-1]])

    @property
    def seconds(self) -> dict[str, float]:
        """The phases that were found."""
        return {phase: length / SECOND_NS for phase, length in self.phases.found.items()}


def test_the_phases_follow_each_other_until_the_first_answer() -> None:
    process = Started(started_up(5, 9))
    assert not process.load(1, 4)
    assert not process.load(6, 8)

    assert process.serve(30, 31.5)

    assert process.seconds == {
        "container": 8, "imports": 14, "weights": 5, "warm_up": 2, "first_request": 1.5
    }  # fmt: skip


def test_time_between_the_start_and_the_first_request_is_in_no_phase() -> None:
    soon, late = Started(started_up(5, 9)), Started(started_up(5, 9))

    soon.serve(9, 10)
    late.serve(4000, 4001)

    assert soon.seconds == late.seconds


def test_models_that_load_beside_each_other_are_counted_once() -> None:
    process = Started(started_up(5, 9))
    process.load(1, 4)
    process.load(2, 5)

    process.serve(30, 31)

    assert process.seconds["weights"] == 4
    assert process.seconds["imports"] == 17 - 4


def test_probes_are_no_first_request() -> None:
    process = Started()

    assert not process.serve(1, 2, "GET /healthz")
    assert process.seconds == {}
    assert process.serve(3, 5)
    assert process.seconds["first_request"] == 2


def test_a_program_that_starts_nothing_up_has_no_warm_up() -> None:
    process = Started()

    process.serve(3, 4)

    assert process.seconds == {"container": 8, "imports": 15, "weights": 0, "first_request": 1}


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(began(first=-8_999), id="the host's"),
        pytest.param(began(first=-5_000), id="long before: a worker that came anew"),
        pytest.param(began(first=None), id="unknown"),
    ],
)
def test_a_container_counts_where_it_began_shortly_before(
    times: Mapping[str, int | None],
) -> None:
    process = Started(times=times)

    process.serve(3, 4)

    assert "container" not in process.seconds


def test_where_linux_does_not_tell_what_is_known_is_told() -> None:
    process = Started(started_up(5, 9), dict.fromkeys((MACHINE, FIRST, SELF)))

    process.serve(30, 31)

    assert process.seconds == {"weights": 0, "warm_up": 4, "first_request": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_linux_tells_when_a_process_began() -> None:
    tick_ns = SECOND_NS // os.sysconf("SC_CLK_TCK")
    before_ns = monotonic_ns()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        after_ns = monotonic_ns()
        began_ns = process_began_ns(str(child.pid))
        assert child.stdin is not None
        child.stdin.close()

    assert began_ns is not None
    assert before_ns - 2 * tick_ns <= began_ns <= after_ns + 2 * tick_ns
    machine_ns, own_ns = process_began_ns(MACHINE), process_began_ns(SELF)
    assert machine_ns is not None
    assert own_ns is not None
    assert machine_ns < own_ns < before_ns
    assert process_began_ns("no process") is None
