"""What one span costs: latencytrace's beside the OpenTelemetry SDK's, in the same run.

    python tests/benchmarks/bench_span.py [--rounds 25] [--json]

Pairs of nested spans with 5 attributes each, sent to a receiver in a process of its own.
The rounds of all contestants are interleaved; a round is smaller than the SDK's queue and
is flushed within the measurement, so that every span of it is paid for in full. The ratios
are those of single rounds, their median and middle half.
"""

import argparse
import gc
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import latencytrace
from latencytrace.agent.guard import FaultCounter
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Patch
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model import Stage
from tests.benchmarks.contestant import through
from tests.benchmarks.discarding import Discarding, receive

PAIRS = 1000  # a round: 2 000 spans, for the SDK's queue holds 2 048
LOSS_PAIRS = 10_000  # a tight loop with default queues
WARM_UP_ROUNDS = 2
ATTRIBUTES: dict[str, str | int | float | bool] = {
    "collection": "passages",
    "limit": 8,
    "score": 0.73,
    "model": "mini",
    "cached": True,
}
SDK = "SDK, batches over OTLP/HTTP"
FLUSH_S = 30.0


class NullExporter(SpanExporter):
    """Takes every batch and does nothing with it."""

    def export(self, _: object) -> SpanExportResult:
        """Say that all went well."""
        return SpanExportResult.SUCCESS


@dataclass(slots=True)
class Contestant:
    """One way to make a pair of spans, and what its rounds took in µs a span."""

    pair: Callable[[], object]
    flush: Callable[[], object]
    thread_us: list[float] = field(default_factory=list)
    process_us: list[float] = field(default_factory=list)

    def round(self) -> None:
        """Make and flush a round of spans."""
        pair = self.pair
        gc.collect()
        process_ns, thread_ns = time.process_time_ns(), time.thread_time_ns()
        for _ in range(PAIRS):
            pair()
        thread_ns = time.thread_time_ns() - thread_ns
        self.flush()
        process_ns = time.process_time_ns() - process_ns
        self.thread_us.append(thread_ns / 1000 / (2 * PAIRS))
        self.process_us.append(process_ns / 1000 / (2 * PAIRS))


def through_stages() -> None:
    """A pair of stages of the user's own."""
    with latencytrace.stage("rerank", **ATTRIBUTES), latencytrace.stage("embed", **ATTRIBUTES):
        pass


def through_a_hook() -> Callable[[], object]:
    """A pair as our hooks make it: timed calls, one within the other."""
    recorder = Recorder(trace.get_tracer("bench"), FaultCounter())

    def describe(_: Arguments) -> HookAttributes:
        return {"collection": "passages", "limit": 8, "score": 0.73, "cached": True}

    def timed_call(function: Callable[..., Any], stage: Stage) -> Callable[..., Any]:
        patch = Patch("library", "Client.search", stage, describe)  # and the stage: 5 attributes
        replaced: Callable[..., Any] = timed(function, beginning(function, patch, recorder))
        return replaced

    def embed(text: str) -> str:
        return text

    inner = timed_call(embed, Stage.EMBED)

    def search(text: str) -> object:
        return inner(text)

    outer = timed_call(search, Stage.RETRIEVE)
    return lambda: outer("text")


def sdk(exporter: SpanExporter) -> TracerProvider:
    """The SDK's provider with the processor that everybody uses, at its defaults."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def ratios(of: list[float], to: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the ratios of single rounds."""
    low, middle, high = statistics.quantiles(
        [one / other for one, other in zip(of, to, strict=True)], n=4
    )
    return low, middle, high


def measured(receiver: Discarding, rounds: int) -> dict[str, object]:
    """All contestants in turns, then what each loses in a tight loop."""
    os.environ["LATENCYTRACE_OVERHEAD"] = "off"  # every span is measured
    latencytrace.instrument("bench", endpoint=receiver.address("ours"), hooks=[])
    over_http = sdk(OTLPSpanExporter(receiver.address("sdk") + "/v1/traces"))
    to_nobody = sdk(NullExporter())
    tracer = trace.get_tracer("bench")

    def flush() -> object:
        return latencytrace.flush(FLUSH_S)

    def flush_sdk() -> object:
        return over_http.force_flush(int(FLUSH_S * 1000))

    no_provider = through(trace.NoOpTracerProvider().get_tracer("bench"))
    contestants = {
        "OpenTelemetry's interface alone": Contestant(no_provider, lambda: None),
        "SDK, batches to nobody": Contestant(
            through(to_nobody.get_tracer("bench")), to_nobody.force_flush
        ),
        SDK: Contestant(through(over_http.get_tracer("bench")), flush_sdk),
        "latencytrace, OpenTelemetry's interface": Contestant(through(tracer), flush),
        "latencytrace, stage()": Contestant(through_stages, flush),
        "latencytrace, a hook": Contestant(through_a_hook(), flush),
    }
    for _ in range(WARM_UP_ROUNDS + rounds):
        for contestant in contestants.values():
            contestant.round()
    lost = {}
    for name, path in ((SDK, "sdk"), ("latencytrace, OpenTelemetry's interface", "ours")):
        before = receiver.spans(path)
        for _ in range(LOSS_PAIRS):
            contestants[name].pair()
        contestants[name].flush()
        lost[name] = 1 - (receiver.spans(path) - before) / (2 * LOSS_PAIRS)
    latencytrace.uninstrument()
    over_http.shutdown()
    to_nobody.shutdown()
    return {name: numbers(c, contestants[SDK], lost.get(name)) for name, c in contestants.items()}


def numbers(of: Contestant, to: Contestant, lost_ratio: float | None) -> dict[str, object]:
    """What one contestant's rounds say, its ratios to the SDK's included."""
    counted = slice(WARM_UP_ROUNDS, None)
    return {
        "thread_us": statistics.median(of.thread_us[counted]),
        "thread_to_sdk_ratio": ratios(of.thread_us[counted], to.thread_us[counted]),
        "process_us": statistics.median(of.process_us[counted]),
        "process_to_sdk_ratio": ratios(of.process_us[counted], to.process_us[counted]),
        "lost_ratio": lost_ratio,
    }


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    heads = ("CPU of a span", "serving thread", "of the SDK's", "whole process", "of the SDK's")
    lines = ["{:42}{:>14}   {:21}{:>14}   {}".format(*heads)]
    for name, row in results.items():
        lines.append(
            f"{name:42}{row['thread_us']:11.2f} µs   {of_sdk(row['thread_to_sdk_ratio'])}"
            f"{row['process_us']:11.2f} µs   {of_sdk(row['process_to_sdk_ratio']).rstrip()}"
        )
    lines += [
        f"{name}: {row['lost_ratio']:.1%} of {2 * LOSS_PAIRS} spans lost in a tight loop"
        for name, row in results.items()
        if row["lost_ratio"] is not None
    ]
    return "\n".join(lines) + "\n"


def of_sdk(ratio: tuple[float, float, float]) -> str:
    """`1/8.1 (7.9 to 8.4)`: the middle ratio and the middle half of all."""
    low, middle, high = ratio
    return f"1/{1 / middle:<4.1f} ({1 / high:.1f} to {1 / low:.1f})".ljust(21)


def main() -> None:
    """Run all contestants in turns and write a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=25)
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    logging.disable(logging.WARNING)  # the SDK's, of spans that it drops: they are counted
    with receive(get_context("spawn")) as receiver:
        results = measured(receiver, given.rounds)
    sys.stdout.write(json.dumps(results, indent=2) + "\n" if given.json else table(results))


if __name__ == "__main__":
    main()
