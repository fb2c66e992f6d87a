"""Ends processes in every way that multiprocessing has, and by SIGTERM, plain and traced.

    python -m tests.stress.ends [--pools 300] [--methods fork spawn] [--hogs 2]
        [--terminations 300] [--slowest-s 60] [--unrecorded] [--json]

A line for each way, plain and traced: how many, the median, the slowest, how many hung, how many
took longer than the slowest plain one, and how many 0.2 s longer than the median plain one. Of
programs that SIGTERM ends also how many of their requests never arrived. It ends with 1 where any
hung. With `--unrecorded` the pools' processes have nothing to record.
"""

import argparse
import compileall
import json
import math
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from latencytrace.agent import autostart
from tests.stress import ended_program
from tests.stress.hogs import hogs
from tests.support.agent.receiving import Receiver

METHODS: Final = ("fork", "forkserver", "spawn", "billiard")
TRACED: Final = (False, True)
LATE_S: Final = 0.2
_NONE: Final[Sequence[float]] = (math.inf,)  # nothing to compare with


class Ended(NamedTuple):
    """What became of many programs of one kind."""

    way: str
    traced: bool
    programs: int
    hung: int
    median_s: float
    slowest_s: float
    slower: int  # than the slowest plain one
    late: int  # by 0.2 s, beside the median plain one
    missing: int  # requests that were done and never arrived


def begun(
    *arguments: str, receiver: str | None, stdin: int | None = None, stderr: int | None = None
) -> subprocess.Popen[str]:
    """Begin a program, traced as `latencytrace run` does it where there is a receiver."""
    command = (sys.executable, "-W", "ignore", ended_program.__file__, *arguments)
    environment = dict(os.environ)
    if receiver is not None:
        environment["PYTHONPATH"] = f"{next(iter(autostart.__path__))}/."
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment,
        start_new_session=True,  # a child that hangs holds the output open, and ends with it
    )


def pools(method: str, way: str, count: int, slowest_s: float) -> Iterator[Ended]:
    """Make many pools, one in a plain program and one in a traced one by turns.

    So neither is beside the other, and both meet the same neighbours.
    """
    times, hung = {one: list[float]() for one in TRACED}, Counter[bool]()
    with Receiver() as receiver:
        programs = {
            traced: begun(
                *("pools", method, way),
                receiver=receiver.url if traced else None,
                stdin=subprocess.PIPE,
            )
            for traced in TRACED
        }
        for _, traced in product(range(count), TRACED):
            if not hung[traced]:
                took_s = next_pool(programs[traced], slowest_s)
                hung[traced] += took_s is None
                times[traced] += [took_s or slowest_s]
        for traced, program in programs.items():
            assert program.stdin is not None
            program.stdin.close()
            try:
                program.wait(slowest_s)
            except subprocess.TimeoutExpired:
                hung[traced] += 1
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    for traced in TRACED:
        plain: Sequence[float] = times[False] if traced else _NONE
        yield ended(f"{method}, {way}", times[traced], hung[traced], plain, 0, traced=traced)


def next_pool(program: subprocess.Popen[str], slowest_s: float) -> float | None:
    """Have a program make a pool; return how long it took, None where it hangs or is gone."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    answered, _, _ = select.select([program.stdout], [], [], slowest_s)
    line = program.stdout.readline() if answered else ""
    return float(line) if line else None


def terminations(count: int, slowest_s: float) -> Iterator[Ended]:
    """End many short programs, each a millisecond later than the one before, over and over.

    A plain one and a traced one by turns.
    """
    times, hung, missing = {one: list[float]() for one in TRACED}, Counter[bool](), 0
    for number, traced in product(range(count), TRACED):
        with Receiver() as receiver:
            program = begun("short", receiver=receiver.url if traced else None)
            assert program.stdout is not None
            done = int(program.stdout.readline())
            time.sleep(number % ended_program.LASTS_MS / 1000)
            began = time.monotonic()
            program.send_signal(signal.SIGTERM)
            try:
                program.wait(slowest_s)
            except subprocess.TimeoutExpired:
                hung[traced] += 1
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
            times[traced].append(time.monotonic() - began)
            program.stdout.close()
            arrived = sum(span.name == ended_program.NAME for span in receiver.spans)
            missing += done - arrived if traced else 0
    for traced in TRACED:
        plain: Sequence[float] = times[False] if traced else _NONE
        lost = missing * traced
        yield ended("SIGTERM", times[traced], hung[traced], plain, lost, traced=traced)


def ended(
    way: str,
    times: Sequence[float],
    hung: int,
    plain: Sequence[float],
    missing: int,
    *,
    traced: bool,
) -> Ended:
    """Put figures together."""
    median, slowest = (statistics.median(times), max(times)) if times else (0.0, 0.0)
    slower = sum(one > max(plain) for one in times)
    late = sum(one > statistics.median(plain) + LATE_S for one in times)
    figures = round(median, 4), round(slowest, 4), slower, late
    return Ended(way, traced, len(times), hung, *figures, missing)


def all_of(told: argparse.Namespace) -> Iterator[Ended]:
    """Run what is asked for."""
    ways = list(product(told.methods, ended_program.WAYS))
    each = max(told.pools // len(ways), 1) if told.pools else 0
    with hogs(told.hogs):
        for method, way in ways if each else ():
            yield from pools(method, way, each, told.slowest_s)
        if told.terminations:
            yield from terminations(told.terminations, told.slowest_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each; 1 where any hung."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.ends")
    parser.add_argument("--pools", type=int, default=300)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--hogs", type=int, default=0)
    parser.add_argument("--terminations", type=int, default=300)
    parser.add_argument("--slowest-s", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--unrecorded", action="store_true")
    told = parser.parse_args(arguments)
    # As pip leaves it: without bytecode a start takes twice as long.
    compileall.compile_dir(Path(autostart.__file__).parents[2], quiet=1)
    if told.unrecorded:
        os.environ[ended_program.UNRECORDED] = "1"
    hung = 0
    for one in all_of(told):
        hung += one.hung
        shown = json.dumps(one._asdict()) if told.json else _line(one)
        sys.stdout.write(f"{shown}\n")
        sys.stdout.flush()
    return int(hung > 0)


def _line(one: Ended) -> str:
    tracing = "traced" if one.traced else "plain"
    return (
        f"{one.way:<31}{tracing:<8}{one.programs:>6}  hung {one.hung}  median {one.median_s:.3f} s"
        f"  slowest {one.slowest_s:.3f} s  slower {one.slower}  late {one.late}"
        f"  missing {one.missing}"
    )


if __name__ == "__main__":
    sys.exit(main())
