"""The time that a request waited before its application saw it."""

from collections.abc import Mapping
from dataclasses import replace

from latencytrace.analysis.repairs.intervals import Intervals, carrying
from latencytrace.analysis.trace.is_request import ENTRY_KINDS
from latencytrace.model import Interval, Span, Stage, semconv

MAX_QUEUED_NS = 600_000_000_000


def with_proxy_queue(
    spans: Mapping[str, Span], intervals: Mapping[str, Intervals]
) -> tuple[dict[str, Span], dict[str, Intervals]]:
    """Let the requests that a front proxy held back begin when it took them.

    The time from there to the server span (`latencytrace.queued_ns`, from `X-Request-Start`)
    is an interval of stage `queue`, and part of the time to the first token.

    Args:
        spans: By span id.
        intervals: Those packed on them, by span id, absolute.

    Returns:
        The same, longer at their front where they were held back.
    """
    longer = dict(spans)
    more = dict(intervals)
    for span_id, span in spans.items():
        queued_ns = span.attributes.get(semconv.QUEUED_NS)
        if span.kind not in ENTRY_KINDS or type(queued_ns) is not int:
            continue
        if not 0 < queued_ns <= MAX_QUEUED_NS:
            continue
        began_ns = span.start_ns - queued_ns
        queue = Interval(stage=Stage.QUEUE, start_ns=began_ns, end_ns=span.start_ns)
        more[span_id] = (queue, *intervals.get(span_id, ()))
        longer[span_id] = begun_earlier(span, more[span_id])
    return longer, more


def begun_earlier(span: Span, intervals: Intervals) -> Span:
    """The span, begun with the first of its intervals; what counts from its start moves along."""
    began_ns = intervals[0].start_ns
    attributes = {key: value for key, value in span.attributes.items() if key != semconv.QUEUED_NS}
    first = attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)
    if isinstance(first, int | float):
        earlier_s = (span.start_ns - began_ns) / 1e9
        attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = first + earlier_s
    first_body = attributes.get(semconv.STREAMED_FIRST_BODY)
    if isinstance(first_body, int):
        attributes[semconv.STREAMED_FIRST_BODY] = first_body + span.start_ns - began_ns
    return carrying(replace(span, start_ns=began_ns, attributes=attributes), intervals)
