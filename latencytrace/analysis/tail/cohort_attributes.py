"""The attributes by which a request may be asked for, bounded whatever its spans carry."""

from collections.abc import Iterator

from latencytrace.model import Span, Trace, semconv
from latencytrace.model.cohorts.breakdown import attribute_text

MOST_ATTRIBUTES = 32
# What a request's own columns say, or what differs in each request.
LEFT_OUT = frozenset(
    {
        semconv.INTERVALS, semconv.TOKEN_TIMES, semconv.RUNTIME_GAPS, semconv.STAGE,
        semconv.PROCESSOR_WAIT_NS,
        semconv.QUEUED_NS, semconv.CONCURRENCY, semconv.QUEUE_DEPTH, semconv.PREEMPTIONS,
        semconv.DETAIL, semconv.NETWORK_PHASES, semconv.BATCH_TOKENS, semconv.DEVICE_START,
        semconv.DEVICE_END, semconv.DEVICE_DURATION, semconv.DEVICE_LAUNCH,
        semconv.DEVICE_QUEUE_DELAY, semconv.DEVICE_ERROR, semconv.STREAMED_TOKENS,
        semconv.STREAMED_EVENTS,
        semconv.STREAMED_CHOICES, semconv.STREAMED_FIRST_BODY,
        semconv.HTTP_ROUTE, semconv.HTTP_REQUEST_METHOD, semconv.HTTP_METHOD_OLD,
        semconv.URL_PATH, semconv.HTTP_TARGET_OLD, semconv.HTTP_URL_OLD, semconv.URL_FULL,
        "url.query",
        "client.port", "net.peer.port", "network.peer.port", "thread.id",
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, "gen_ai.response.id",
        semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    }
)  # fmt: skip


def cohort_attributes(trace: Trace) -> tuple[tuple[tuple[str, str], ...], int]:
    """Keys and texts of the attributes of a request's spans, each pair once.

    Returns:
        The first pairs, those of the request's own span before those of the others in order
        of start; and how many more there are.
    """
    pairs: dict[tuple[str, str], None] = {}
    for span in _in_order(trace):
        for key, value in span.attributes.items():
            if key in LEFT_OUT:
                continue
            if isinstance(value, tuple):
                pairs.update(((key, attribute_text(item)), None) for item in value)
            elif value is not None and value != semconv.CONTENT_REMOVED:
                pairs[key, attribute_text(value)] = None
    kept = tuple(pairs)[:MOST_ATTRIBUTES]
    return kept, len(pairs) - len(kept)


def _in_order(trace: Trace) -> Iterator[Span]:
    root_id = trace.root.span_id
    yield trace.unclipped[root_id]
    others = (span for span_id, span in trace.unclipped.items() if span_id != root_id)
    yield from sorted(others, key=lambda span: (span.start_ns, span.span_id))
