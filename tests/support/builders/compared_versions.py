"""Three versions of one service over half an hour: one is slower, one is asked for more."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from latencytrace.model import Span, SpanKind, Stage, semconv
from latencytrace.model.cohorts.request_columns import STAGES, RequestColumns
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.simulation.cohorts import BEGIN_NS, System, cohort

REQUESTS = 500  # of each version
CALM = System(noise=0.1)
VERSIONS: Mapping[str, System] = {
    "1": CALM,
    "slower-search": replace(CALM, retrieve_ms=120),
    "longer-prompts": replace(CALM, prompt=1_500),
}
IN_ORDER = (Stage.RETRIEVE, Stage.PREFILL, Stage.DECODE)
POSTED_TOGETHER = 250


def compared_versions() -> Iterator[list[Span]]:
    """The spans of all versions, in posts."""
    begin_ns = time.time_ns() - 1_800 * 10**9
    for seed, (version, system) in enumerate(VERSIONS.items()):
        columns = cohort(np.random.default_rng(seed), system, REQUESTS)
        for first in range(0, REQUESTS, POSTED_TOGETHER):
            rows = range(first, first + POSTED_TOGETHER)
            yield [one for row in rows for one in _spans(columns, row, version, begin_ns)]


def _spans(columns: RequestColumns, row: int, version: str, begin_ns: int) -> Iterator[Span]:
    """A request of a cohort, as its program would send it."""
    trace_id = columns.trace_id_of(row)
    start_ns = int(columns.start_ns[row]) - BEGIN_NS + begin_ns
    root = one_span(
        trace_id,
        f"{1:016x}",
        start_ns=start_ns,
        end_ns=start_ns + int(columns.duration_ns[row]),
        attributes={
            semconv.HTTP_REQUEST_METHOD: "POST",
            semconv.HTTP_ROUTE: "/chat",
            semconv.CONCURRENCY: int(columns.concurrency.value[row]),
            semconv.GEN_AI_USAGE_INPUT_TOKENS: int(columns.input_tokens.value[row]),
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: int(columns.output_tokens.value[row]),
        },
    )
    yield replace(root, version=version)
    for place, stage in enumerate(IN_ORDER):
        end_ns = start_ns + int(columns.stages_ns[row, STAGES.index(stage)])
        below = one_span(
            trace_id,
            f"{place + 2:016x}",
            parent_id=root.span_id,
            name=str(stage),
            kind=SpanKind.INTERNAL,
            start_ns=start_ns,
            end_ns=end_ns,
            attributes={semconv.STAGE: str(stage)},
        )
        yield replace(below, version=version)
        start_ns = end_ns
