"""What one token of a traced stream costs: ours beside an event of the OpenTelemetry SDK's.

    python tests/benchmarks/bench_stream.py [--rounds 15] [--json]

CPU time of the serving thread a token, less that of the loop around it, streams of several
lengths, packed at their end; the rounds of all contestants are interleaved, the median and
the middle half are shown.

* `made`: a model makes a token that nobody streams.
* `made and sent`: it makes one, and the chunk with it leaves: what the hooks for models and for
  ASGI do with a token, without what they do with a chunk of any stream.
* `sent`: the same of a server-sent event whose token was made in another process.
* `SDK event`: `span.add_event("token")`, for comparison.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from itertools import accumulate

from opentelemetry.context import set_value
from opentelemetry.sdk.trace import TracerProvider

from latencytrace.agent.context import call_in
from latencytrace.agent.toolkit.streaming import ANSWER, AnswerStream, MadeTokens

LENGTHS = (100, 1000, 10_000)
TOKENS_A_ROUND = 100_000
PROMISED_US = 0.3  # DESIGN part 5
EVENT = (
    b'data: {"id":"chatcmpl-1234567890","object":"chat.completion.chunk","created":1763690000,'
    b'"model":"llama","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,'
    b'"finish_reason":null}]}\n\n'
)
_random = random.Random(1)
TIMES_NS = list(  # of tokens about 20 ms apart
    accumulate(round(_random.lognormvariate(16.8, 0.3)) for _ in range(max(LENGTHS)))
)


def a_loop(tokens: int) -> None:
    """Nothing, so often."""
    for _ in range(tokens):
        pass


def made(tokens: int) -> None:
    """One stream's tokens, made and packed."""
    stream = MadeTokens()
    for _ in range(tokens):
        stream.add()
    stream.described(0)


def made_and_sent(tokens: int) -> None:
    """One stream's tokens, made, sent and packed."""
    answer = AnswerStream()
    stream = call_in(set_value(ANSWER, answer), MadeTokens)
    for at_ns in TIMES_NS[:tokens]:
        stream.add()
        answer.chunk_sent(b"word ", answer.known, at_ns)
    stream.described(0)
    answer.described(0)


def sent(tokens: int) -> None:
    """One stream's events, made elsewhere, read and packed."""
    answer = AnswerStream()
    answer.begun(((b"content-type", b"text/event-stream"),))
    for at_ns in TIMES_NS[:tokens]:
        answer.chunk_sent(EVENT, 0, at_ns)
    answer.described(0)


def sdk_event() -> Callable[[int], None]:
    """An event a token."""
    tracer = TracerProvider().get_tracer("bench")

    def events(tokens: int) -> None:
        with tracer.start_as_current_span("stream") as span:
            for _ in range(tokens):
                span.add_event("token")

    return events


def token_us(stream: Callable[[int], None], tokens: int) -> float:
    """Microseconds of this thread's CPU time a token."""
    gc.collect()
    streams = TOKENS_A_ROUND // tokens
    started_ns = time.thread_time_ns()
    for _ in range(streams):
        stream(tokens)
    return (time.thread_time_ns() - started_ns) / 1000 / (streams * tokens)


def measured(rounds: int) -> dict[str, dict[int, list[float]]]:
    """Quartiles of µs a token, by contestant and stream length."""
    contestants: dict[str, Callable[[int], None]] = {
        "made": made,
        "made and sent": made_and_sent,
        "sent": sent,
        "SDK event": sdk_event(),
    }
    taken: dict[str, dict[int, list[float]]] = {
        name: {length: [] for length in LENGTHS} for name in contestants
    }
    for _ in range(rounds):
        for length in LENGTHS:
            loop_us = token_us(a_loop, length)
            for name, stream in contestants.items():
                taken[name][length].append(token_us(stream, length) - loop_us)
    return {
        name: {length: statistics.quantiles(us, n=4) for length, us in lengths.items()}
        for name, lengths in taken.items()
    }


def main() -> int:
    """Print the table; fail if a token costs more than was promised."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print figures only")
    options = parser.parse_args()
    found = measured(options.rounds)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{'µs a token':<18}" + "".join(f"{f'{n:,} tokens':>28}" for n in LENGTHS))
        for name, lengths in found.items():
            cells = [f"{mid:.3f} ({low:.3f} to {high:.3f})" for low, mid, high in lengths.values()]
            print(f"{name:<18}" + "".join(f"{cell:>28}" for cell in cells))
    return int(max(mid for _, mid, _ in found["made and sent"].values()) > PROMISED_US)


if __name__ == "__main__":
    sys.exit(main())
