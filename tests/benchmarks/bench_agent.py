"""What tracing costs: latencytrace beside the SDK and the peers, in the same run.

    make bench-agent        # installs each peer into an environment of its own first

Each contestant is a process of its own and makes pairs of nested spans with 5 attributes, as
its own documentation says, for a receiver in one more process. The rounds are interleaved and
smaller than the SDK's queue, and every span of them is waited for and counted. Lateness is
compared with an untraced process, and that one with a second untraced one, turn by turn; of
these and ours each round has several turns, for what they differ by is small.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.benchmarks.discarding import Discarding, receive
from tests.benchmarks.rounds import differences, interval, median_ratio, middle

HERE = Path(__file__).parent
PEERS = ("fastotel", "ddtrace", "openlit", "openllmetry", "openinference", "logfire", "langfuse")
CONTESTANTS = {  # in the order of the table
    "untraced": "untraced",
    "untraced-again": "untraced, a second process",
    "latencytrace": "latencytrace",
    "latencytrace-stages": "latencytrace, stage()",
    "sdk-to-nobody": "SDK, batches thrown away",
    "sdk": "SDK, batches over OTLP/HTTP",
    "fastotel": "fastotel",
    "ddtrace": "ddtrace",
    "openlit": "OpenLIT",
    "openllmetry": "OpenLLMetry (Traceloop)",
    "openinference": "OpenInference",
    "logfire": "Logfire",
    "langfuse": "Langfuse",
}
PAIRS = 1000  # a round: 2 000 spans, for the SDK's queue holds 2 048
SLEEPS = 1000
LATE_TURNS = 3  # a round
CLOSE = ("untraced", "untraced-again", "latencytrace", "latencytrace-stages")  # to each other
LOOP_PAIRS = 10_000
WARM_UP_ROUNDS = 2
QUIET = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "TRACELOOP_TELEMETRY": "false",
    "TRACELOOP_METRICS_ENABLED": "false",
}


@dataclass(slots=True)
class Runner:
    """A contestant's process, and what its rounds took."""

    name: str
    process: "subprocess.Popen[str]"
    receiver: Discarding
    thread_us: list[float] = field(default_factory=list)
    process_us: list[float] = field(default_factory=list)
    late_us: dict[int, float] = field(default_factory=dict)  # by turn
    lost_ratio: float | None = None

    def answer(self) -> dict[str, float]:
        """Wait for one line of it."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit(f"{self.name} ended before it answered: run it by hand, see below")
        answer: dict[str, float] = json.loads(line)
        return answer

    def do(self, task: str, count: int) -> dict[str, float]:
        """Have it do one task."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task} {count}\n")
        self.process.stdin.flush()
        return self.answer()

    def spans_round(self, *, counted: bool) -> None:
        """One round of spans, all of which must arrive."""
        before = self.receiver.spans(self.name)
        took = self.do("round", PAIRS)
        arrived = self.receiver.spans(self.name) - before
        if self.sends and arrived != 2 * PAIRS:
            sys.stderr.write(f"{self.name}: {arrived} of {2 * PAIRS} spans of a round arrived\n")
        if counted:
            self.thread_us.append(took["thread_us"])
            self.process_us.append(took["process_us"])

    def tight_loop(self) -> None:
        """Make spans as fast as it goes, and count what was lost."""
        before = self.receiver.spans(self.name)
        made = self.do("loop", LOOP_PAIRS)["made"]
        if self.sends:
            self.lost_ratio = 1 - (self.receiver.spans(self.name) - before) / made

    @property
    def sends(self) -> bool:
        """Whether its spans go to the receiver."""
        return self.name not in {"untraced", "untraced-again", "sdk-to-nobody"}


@contextmanager
def running(name: str, environments: Path, receiver: Discarding) -> Iterator[Runner]:
    """A contestant that is ready, for as long as the block lasts."""
    python = environments / name / "bin" / "python" if name in PEERS else Path(sys.executable)
    told = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    told |= {**QUIET, "DD_TRACE_AGENT_URL": f"http://127.0.0.1:{receiver.port}"}
    process = subprocess.Popen(
        [python, HERE / "contestant.py", name, receiver.address(name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=told,
    )
    runner = Runner(name, process, receiver)
    try:
        runner.answer()
        yield runner
    finally:
        process.kill()
        process.wait()


def measured(names: list[str], environments: Path, rounds: int) -> dict[str, dict[str, Any]]:
    """All contestants in turns."""
    with ExitStack() as ending:
        receiver = ending.enter_context(receive(get_context("spawn")))
        runners = [ending.enter_context(running(n, environments, receiver)) for n in names]
        for number in range(WARM_UP_ROUNDS + rounds):
            progress(f"round {number + 1} of {WARM_UP_ROUNDS + rounds}")
            for runner in runners:
                runner.spans_round(counted=number >= WARM_UP_ROUNDS)
            for turn in range(LATE_TURNS):
                for runner in random.sample(runners, len(runners)):
                    if turn == 0 or runner.name in CLOSE:
                        late = runner.do("late", SLEEPS)["p99_us"]
                        if number >= WARM_UP_ROUNDS:
                            runner.late_us[number * LATE_TURNS + turn] = late
        progress("tight loops")
        for runner in runners:
            runner.tight_loop()
        progress("")
    by_name = {runner.name: runner for runner in runners}
    return {name: numbers(runner, by_name) for name, runner in by_name.items()}


def progress(text: str) -> None:
    """Say to people how far it is."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def numbers(runner: Runner, all_: Mapping[str, Runner]) -> dict[str, Any]:
    """What one contestant's rounds say, beside the SDK's and the untraced one's."""
    sdk, untraced = all_["sdk"], all_["untraced"]
    late = differences(
        list(runner.late_us.values()), [untraced.late_us[turn] for turn in runner.late_us]
    )
    return {
        "thread_us": statistics.median(runner.thread_us),
        "thread_to_sdk_ratio": median_ratio(runner.thread_us, sdk.thread_us),
        "process_us": statistics.median(runner.process_us),
        "process_to_sdk_ratio": median_ratio(runner.process_us, sdk.process_us),
        "late_p99_us": statistics.median(runner.late_us.values()),
        "late_p99_more_us": interval(late),
        "late_p99_more_single_us": middle(late),
        "lost_ratio": runner.lost_ratio,
    }


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The results for people, and for the page about costs."""
    heads = (
        *("CPU of a span", "serving thread", "of the SDK's", "whole process", "of the SDK's"),
        *("p99 of lateness", "more than untraced, 95 %", "lost in a tight loop"),
    )
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for name, row in results.items():
        traced = not name.startswith("untraced")
        low, high = row["late_p99_more_us"]
        cells = (
            CONTESTANTS[name],
            f"{row['thread_us']:.1f} µs" if traced else "",
            as_ratio(row["thread_to_sdk_ratio"]) if traced else "",
            f"{row['process_us']:.1f} µs" if traced else "",
            as_ratio(row["process_to_sdk_ratio"]) if traced else "",
            f"{row['late_p99_us'] / 1000:.2f} ms",
            f"{low / 1000:.2f} to {high / 1000:.2f} ms" if name != "untraced" else "",
            "" if row["lost_ratio"] is None else f"{row['lost_ratio']:.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    low, high = results["untraced-again"]["late_p99_more_single_us"]
    noise = f"{low / 1000:.2f} to {high / 1000:.2f} ms"
    lines += [
        "",
        f"Between single turns of the two untraced processes p99 differs by {noise}, 95 %.",
    ]
    return "\n".join(lines) + "\n"


def as_ratio(value: float) -> str:
    """`1/8.5` of what is less, `4.5` of what is more."""
    return f"1/{1 / value:.1f}" if value < 0.995 else f"{value:.1f}"


def main() -> None:
    """Run all contestants in turns and write a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--environments", type=Path, default=HERE.parents[1] / ".peers")
    arguments.add_argument("--without", nargs="*", default=[], choices=PEERS, metavar="PEER")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    missing = [name for name in PEERS if not (given.environments / name / ".installed").exists()]
    for name in sorted({*missing} - {*given.without}):
        sys.stderr.write(f"{name} is not installed in {given.environments}: left out\n")
    names = [name for name in CONTESTANTS if name not in {*given.without, *missing}]
    results = measured(names, given.environments, given.rounds)
    sys.stdout.write(json.dumps(results, indent=2) + "\n" if given.json else table(results))


if __name__ == "__main__":
    main()
