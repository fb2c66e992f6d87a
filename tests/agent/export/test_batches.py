"""How many spans are encoded before other threads may run."""

from itertools import pairwise

from latencytrace.agent.export.batches import BATCH_SPANS, Batch, Batches
from latencytrace.agent.export.otlp_traces import OtlpEncoder, Part
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.guard import raise_fault
from tests.support.agent.hooked import Spans


class SlowEncoder(OtlpEncoder):
    """Takes so long for a span, on a clock of its own."""

    def __init__(self, span_ns: int) -> None:
        super().__init__({})
        self.span_ns = span_ns
        self.now_ns = 0

    def parts(self, spans: object) -> list[Part]:
        """Let the time pass."""
        self.now_ns += self.span_ns * len(spans)  # type: ignore[arg-type] # a list
        return []


def at_once(span_ns: int, waiting: int = 700) -> list[int]:
    """How many spans were encoded between two pauses, of so many that wait."""
    spans = Spans()
    for _ in range(waiting):
        spans.recorder.start("span").end()
    queue, encoder = SpanQueue(waiting, 1 << 30), SlowEncoder(span_ns)
    for span in spans.all:
        queue.on_end(span)
    left = [waiting]
    batches = Batches(
        queue, encoder, raise_fault, lambda: left.append(len(queue)), lambda: encoder.now_ns
    )

    batches.fill(Batch(), waiting)

    return [before - after for before, after in pairwise(left)]


def test_quick_ones_are_encoded_many_at_once_and_never_more_than_128() -> None:
    assert max(at_once(500)) == 128


def test_slow_ones_keep_nobody_waiting_for_long() -> None:
    counts = at_once(20_000)

    assert max(counts) * 20_000 <= 200_000
    assert min(counts[:-1]) >= 4


def test_the_more_spans_wait_the_more_are_encoded_without_a_pause() -> None:
    assert set(at_once(20_000_000, 1_000)[:-1]) == {4}  # as few as can be
    assert min(at_once(20_000_000, 9_000)[:-1]) >= (9_000 - BATCH_SPANS) // 256
