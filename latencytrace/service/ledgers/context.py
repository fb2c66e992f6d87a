"""Settings of a pipeline, and its callbacks into the service."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from latencytrace.model import Span
from latencytrace.service.ledgers.column_attribution import ColumnAttribution
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.counts import NO_OBJECTIVES, ObjectiveIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineContext:
    """Settings of a pipeline, and its callbacks into the service."""

    columns: ColumnAttribution = field(default_factory=ColumnAttribution)
    keep_spans_ratio: float = 1.0  # of ordinary requests: their spans are kept
    objectives: ObjectiveIndex = NO_OBJECTIVES  # a request that violates one keeps its spans
    settle_s: float = 0.0  # a request settles after so many seconds without a span
    counted_until_ns: int | None = None  # an earlier process counted requests written until then
    on_settled: Callable[[Settled], None] = lambda _: None  # hears of settled requests
    on_spans: Callable[[Iterable[Span]], None] = lambda _: None  # of spans that used a GPU
    tidy: Callable[[], None] = lambda: None  # drops old data; called once a second
