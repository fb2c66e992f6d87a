"""Requests of which every tenth waits long for its search: those that ask one collection."""

import time
from collections.abc import Iterator
from random import Random

from latencytrace.model import Span, SpanKind, Stage, semconv
from tests.support.builders.spans.otlp_messages import one_span

MS = 1_000_000
REQUESTS = 400
SLOW_EVERY = 10


def slow_searches(slow_collection: str = "big", first: int = 1) -> Iterator[Span]:
    """Requests of the last five minutes that search and generate.

    Args:
        slow_collection: The collection whose search is slow.
        first: The number of the first trace.
    """
    chance = Random(7)
    begin_ns = time.time_ns() - 300 * 10**9
    for number in range(REQUESTS):
        trace_id, start_ns = f"{number + first:032x}", begin_ns + number * 100 * MS
        slow = number % SLOW_EVERY == SLOW_EVERY - 1
        search_ns = int((900 if slow else 40) * MS * chance.uniform(0.9, 1.1))
        end_ns = start_ns + search_ns + int(80 * MS * chance.uniform(0.9, 1.1))
        yield one_span(
            trace_id,
            "a" * 16,
            name="POST /chat",
            start_ns=start_ns,
            end_ns=end_ns,
            attributes={"collection": slow_collection if slow else "small"},
        )
        yield _below(trace_id, "b", Stage.RETRIEVE, start_ns, start_ns + search_ns)
        yield _below(trace_id, "c", Stage.DECODE, start_ns + search_ns, end_ns)


def _below(trace_id: str, digit: str, stage: Stage, start_ns: int, end_ns: int) -> Span:
    return one_span(
        trace_id,
        digit * 16,
        parent_id="a" * 16,
        name=f"a span of {stage}",
        kind=SpanKind.INTERNAL,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes={semconv.STAGE: stage.value},
    )
