"""What tracing adds to the start of a program: CPU time, user and system, of all its processes.

    python -m tests.benchmarks.bench_start [--rounds 15] [--beside /another/checkout]

Programs that do nothing start in turns, in an order drawn anew each round: one that imports
FastAPI, OpenTelemetry's SDK with its exporter and, where it is installed, torch; the same with
`latencytrace.instrument()`; one that starts the SDK with its exporter and nothing else;
`python -c pass`; and `latencytrace run -- python -c pass`. Spans go to a receiver that only
counts them. `--beside` adds latencytrace from another checkout. All are compiled first, as pip
leaves them: without bytecode a start takes twice as long. At last
`instrument()` is timed within such a program, with all hooks and with one, for what importing
torch takes changes by more than that; and with what its threads do in their first second and
what ends them.
"""

import argparse
import compileall
import os
import random
import resource
import statistics
import subprocess
import sys
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

from tests.benchmarks.discarding import receive
from tests.benchmarks.rounds import differences, interval, median_ratio, ratios

ROOT = Path(__file__).parents[2]
SDK = (
    "import opentelemetry.sdk.trace.export, "
    "opentelemetry.exporter.otlp.proto.http.trace_exporter, fastapi"
)
TORCH = ", torch" if find_spec("torch") else ""
EXPORTING = f"""{SDK.rpartition(",")[0]}
provider = opentelemetry.sdk.trace.TracerProvider()
exporter = opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter()
provider.add_span_processor(opentelemetry.sdk.trace.export.BatchSpanProcessor(exporter))
opentelemetry.trace.set_tracer_provider(provider)
"""
INSTRUMENT = "\nimport latencytrace\nlatencytrace.instrument()"
TIMED = f"{SDK}{TORCH}\nfrom time import process_time, sleep\nbegan = process_time(){INSTRUMENT}\n"
TIMED += "done = process_time()\nsleep(1.2)\nlatencytrace.uninstrument()\n"
TIMED += "print(1000 * (done - began), 1000 * (process_time() - began))"
EXPORTER = "the SDK's exporter alone"
RUN = "latencytrace run -- python"
OURS = (sys.executable, "-m", "latencytrace", "run", "--")
PROGRAMS = {
    "SDK": (sys.executable, "-c", SDK + TORCH),
    "SDK and instrument()": (sys.executable, "-c", SDK + TORCH + INSTRUMENT),
    "python": (sys.executable, "-c", "pass"),
    EXPORTER: (sys.executable, "-c", EXPORTING),
    RUN: (*OURS, sys.executable, "-c", "pass"),
}
OVER = {
    "SDK and instrument()": "SDK",
    EXPORTER: "python",
    RUN: "python",
}
BESIDE = ", the other checkout"


def cpu_ms(command: tuple[str, ...], environment: dict[str, str]) -> float:
    """Return the CPU time of a program from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Elsewhere, for Python looks for packages where it is started first.
    subprocess.run(command, env=environment, cwd="/", check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def measured(rounds: int, beside: Path | None) -> dict[str, list[float]]:
    """Return ms of CPU by program, one for each round."""
    programs = {name: (command, ROOT) for name, command in PROGRAMS.items()}
    if beside is not None:
        ours = [name for name in OVER if name != EXPORTER]
        programs |= {name + BESIDE: (PROGRAMS[name], beside) for name in ours}
    for _, root in programs.values():
        compileall.compile_dir(root / "latencytrace", quiet=1)
    found: dict[str, list[float]] = {name: [] for name in programs}
    with receive(get_context("spawn")) as receiver:
        for number in range(rounds + 1):
            for name in random.sample(list(programs), len(programs)):
                command, root = programs[name]
                environment = {
                    **os.environ,
                    "PYTHONPATH": os.fspath(root),
                    "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address("start"),
                }
                ms = cpu_ms(command, environment)
                if number:  # the first round warms up
                    found[name].append(ms)
    return found


def within_ms(rounds: int, **environ: str) -> tuple[list[float], list[float]]:
    """Return ms of CPU of `instrument()`, and of all until it has been taken back."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        printed = subprocess.run(
            (sys.executable, "-c", TIMED),
            env={**os.environ, "PYTHONPATH": os.fspath(ROOT), **environ},
            cwd="/", check=True, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
        ).stdout  # fmt: skip
        for ms, one in zip(found, printed.split(), strict=True):
            ms.append(float(one))
    return found


def main() -> None:
    """Measure, and print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--beside", type=Path)
    given = arguments.parse_args()
    found = measured(given.rounds, given.beside)
    print("| | ms of CPU | more than without |\n| --- | ---: | ---: |")
    for name, ms in found.items():
        cell = ""
        without = OVER.get(name.removesuffix(BESIDE))
        if without is not None:
            more = differences(ms, found[without])
            low, high = interval(more)
            cell = f"{statistics.median(more):.0f} [{low:.0f}, {high:.0f}]"
        print(f"| {name} | {statistics.median(ms):.0f} | {cell} |")
    ours, theirs = (differences(found[name], found["python"]) for name in (RUN, EXPORTER))
    low, high = interval(ratios(ours, theirs))
    share = median_ratio(ours, theirs)
    print(f"{RUN}: {share:.2f} [{low:.2f}, {high:.2f}] of the SDK's exporter")
    every, until_the_end = within_ms(given.rounds)
    one, _ = within_ms(given.rounds, LATENCYTRACE_HOOKS="sqlite")
    low, high = interval(differences(every, one))
    for what, ms in (("instrument()", every), ("until uninstrument()", until_the_end)):
        print(f"{what}: {statistics.median(ms):.0f} ms, {min(ms):.0f} to {max(ms):.0f}")
    print(f"hooks: {low:.0f} to {high:.0f} ms of it")


if __name__ == "__main__":
    main()
