"""What was sent again and changes nothing: senders retry, and files are imported twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from latencytrace.model import Request, Span
from latencytrace.service.store import Store


def apart_from_resent(
    attributed: Sequence[Request], store: Store
) -> tuple[list[Request], list[Request]]:
    """Part requests that say something new from those that are written just so already.

    Returns:
        The new ones; the others under the revision that they are written as.
    """
    revised = {request.trace_id for request in attributed if request.revision > 1}
    if not revised:
        return list(attributed), []
    written = {(request.trace_id, request.span_id): request for request in store.written(revised)}
    fresh: list[Request] = []
    resent: list[Request] = []
    for request in attributed:
        before = written.get((request.trace_id, request.span_id))
        if before is not None and replace(request, revision=before.revision) == before:
            resent.append(before)
        else:
            fresh.append(request)
    return fresh, resent


def grown(
    resent: Sequence[Request], arrived: Mapping[str, Sequence[Span]], store: Store
) -> set[str]:
    """The traces whose spans are kept, with others by now, though no request changed."""
    trace_ids = {request.trace_id for request in resent}
    counts = store.kept_counts(trace_ids) if trace_ids else {}
    return {trace_id for trace_id, count in counts.items() if count != len(arrived[trace_id])}
