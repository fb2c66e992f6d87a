"""Requests that are served four at a time, some of them beside one that brings a long prompt."""

import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from latencytrace.model import Link, Span, SpanKind, Stage, semconv
from tests.support.builders.spans.otlp_messages import one_span

MS = 1_000_000
BATCHES, SIZE = 200, 4
LONG_EVERY = 10  # batches
FIXED_MS, TOKEN_MS = 20, 0.05  # of a step, and for each token in it
SHORT, LONG = 300, 6_000  # tokens


def shared_batches() -> Iterator[Span]:
    """Each step once, in a trace of its own, and its four requests of two tenants."""
    chance = Random(5)
    begin_ns = time.time_ns() - 300 * 10**9
    for batch in range(BATCHES):
        tokens = [SHORT] * SIZE
        if batch % LONG_EVERY == LONG_EVERY - 1:
            tokens[0] = LONG
        start_ns = begin_ns + batch * 500 * MS
        took_ms = (FIXED_MS + TOKEN_MS * sum(tokens)) * chance.uniform(0.97, 1.03)
        yield from _batch(batch, tokens, start_ns, start_ns + round(took_ms * MS))


def _batch(batch: int, tokens: list[int], start_ns: int, end_ns: int) -> Iterator[Span]:
    step_trace, step_id = f"{batch + 1:032x}", f"{batch + 1:016x}"
    to_step = Link(trace_id=step_trace, span_id=step_id, attributes={semconv.SHARED: True})
    links = []
    for place, count in enumerate(tokens):
        trace_id = f"{(batch + 1) * 0x10000 + place:032x}"
        yield one_span(
            trace_id,
            "a" * 16,
            start_ns=start_ns - 5 * MS,
            end_ns=end_ns + 5 * MS,
            attributes={"tenant": "bulk" if count == LONG else "people"},
        )
        served = one_span(
            trace_id,
            "b" * 16,
            parent_id="a" * 16,
            name="prefill",
            kind=SpanKind.INTERNAL,
            start_ns=start_ns,
            end_ns=end_ns,
            attributes={semconv.STAGE: Stage.PREFILL.value, semconv.BATCH_SIZE: len(tokens)},
        )
        yield replace(served, links=(to_step,))
        told = {semconv.SHARED: True, semconv.BATCH_TOKENS: count}
        links.append(Link(trace_id=trace_id, span_id="b" * 16, attributes=told))
    step = one_span(
        step_trace,
        step_id,
        name="prefill",
        kind=SpanKind.INTERNAL,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes={
            semconv.STAGE: Stage.PREFILL.value,
            semconv.SHARED: True,
            semconv.BATCH_SIZE: len(tokens),
            semconv.BATCH_TOKENS: sum(tokens),
        },
    )
    yield replace(step, links=tuple(links))
