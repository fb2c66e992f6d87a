"""The critical path: array path, in C, beside the plain one, on the same traces in one run.

    python tests/benchmarks/bench_critical_path.py [--json]

Rounds alternate between the two; the median of each counts, in µs of CPU a span on one core.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from random import Random

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.model import Span, SpanKind, Stage, Trace, semconv
from tests.support.builders.spans.span_columns import SpanColumns, critical_paths, segments

SPANS = 10_000
ROUNDS = 15
STAGES = (Stage.EMBED, Stage.RETRIEVE, Stage.PREFILL, Stage.DECODE, Stage.TOOL)


def trace(number: int, spans: int, random: Random) -> Trace:
    """A request of this many spans, some one after the other, some beside each other."""
    trace_id = f"{number + 1:032x}"
    made = [
        Span(
            trace_id=trace_id,
            span_id=f"{1:016x}",
            parent_id=None,
            name="POST /chat",
            kind=SpanKind.SERVER,
            start_ns=0,
            end_ns=1_000_000_000,
        )
    ]
    while len(made) < spans:
        parent = made[len(made) // 8]
        length_ns = max((parent.end_ns - parent.start_ns) // 8, 2)
        start_ns = parent.start_ns + random.randrange(length_ns * 7)
        end_ns = min(start_ns + random.randrange(length_ns), parent.end_ns)
        packed = f"respond:{length_ns // 8}+{length_ns // 16},9+9"
        made.append(
            Span(
                trace_id=trace_id,
                span_id=f"{len(made) + 1:016x}",
                parent_id=parent.span_id,
                name="work",
                start_ns=start_ns,
                end_ns=end_ns,
                attributes={
                    semconv.STAGE: random.choice(STAGES).value,
                    **({semconv.INTERVALS: packed} if random.random() < 0.1 else {}),
                },
            )
        )
    return build_traces(made)[0]


def times_us(steps: dict[str, Callable[[], object]], spans: int) -> dict[str, float]:
    """Median µs of CPU a span of each step, rounds interleaved."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            before = time.thread_time_ns()
            step()
            taken[name].append((time.thread_time_ns() - before) / 1e3 / spans)
    return {name: statistics.median(values) for name, values in taken.items()}


def measure(shape: str, spans_each: int) -> dict[str, object]:
    """One line of the table."""
    random = Random(1)
    traces = [trace(number, spans_each, random) for number in range(SPANS // spans_each)]
    spans = sum(len(one.spans) for one in traces)
    columns = SpanColumns.of(traces)
    if critical_paths(columns) != [critical_path(one) for one in traces]:
        raise SystemExit("the two paths differ")

    steps: dict[str, Callable[[], object]] = {
        "plain": lambda: [critical_path(one) for one in traces],
        "array, from objects to objects": lambda: critical_paths(SpanColumns.of(traces)),
        "array, on columns": lambda: segments(columns),
    }
    found = times_us(steps, spans)
    return {
        "shape": shape,
        "spans": spans,
        "us_per_span": found,
        "ms_for_10000_spans_on_columns": found["array, on columns"] * 10,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    results = [measure("700 requests of 14 spans", 14), measure("one request of 10 000", SPANS)]
    if as_json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
        return
    for result in results:
        sys.stdout.write(f"{result['shape']}, {result['spans']} spans\n")
        times = result["us_per_span"]
        assert isinstance(times, dict)
        for name, us in times.items():
            faster = times["plain"] / us
            sys.stdout.write(f"  {name:32} {us:7.3f} µs a span {faster:7.1f} x as fast\n")


if __name__ == "__main__":
    main()
