"""Documents of the times between a request's tokens."""

from collections.abc import Sequence

from latencytrace.analysis.ledger.stalls import stalls
from latencytrace.analysis.tokens.gaps import inter_token, token_times
from latencytrace.model import Segment, Trace
from latencytrace.service.answers.documents import InterTokenDocument, StallDocument


def between_tokens(
    trace: Trace | None, segments: Sequence[Segment]
) -> tuple[InterTokenDocument | None, list[StallDocument] | None]:
    """Quantiles of the gaps, and the stalls among them.

    Args:
        trace: Of the request; None: its spans were not kept.
        segments: Critical path of the request.
    """
    streams = token_times(trace) if trace else ()
    quantiles = inter_token(streams)
    if trace is None or quantiles is None:
        return None, None
    return {"p50": quantiles.p50_ns, "p99": quantiles.p99_ns, "max": quantiles.max_ns}, [
        {"start_ns": stall.start_ns, "duration_ns": stall.duration_ns, "label": stall.label}
        for stall in stalls(trace, segments, streams)
    ]
