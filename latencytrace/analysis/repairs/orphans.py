"""Finds a place for spans whose parent never arrived."""

from latencytrace.model import Repair, RepairKind, Span, SpanKind


def adopt_orphans(
    spans: dict[str, Span], cut: frozenset[str]
) -> tuple[dict[str, str | None], list[Repair]]:
    """The parent of each span, orphans hung below a request.

    An orphan that is a server span was called from elsewhere: it is a request of its
    own. Any other hangs below the request of its service that started last before it,
    or else of any service, or else the first one. Where no request has arrived, orphans
    wait for theirs.

    Args:
        spans: By span id.
        cut: Spans that must not keep their parent (see `repairs.cycles`).

    Returns:
        The parent's span id by span id; None: a request's root. Orphans without any
        request are left out.
    """
    parents: dict[str, str | None] = {}
    orphans = []
    for span_id, span in spans.items():
        if span.parent_id is None:
            parents[span_id] = None
        elif span.parent_id in spans and span_id not in cut:
            parents[span_id] = span.parent_id
        elif span.kind is SpanKind.SERVER:
            parents[span_id] = None
        else:
            orphans.append(span)
    roots = sorted(
        (spans[span_id] for span_id, parent in parents.items() if parent is None),
        key=lambda root: (root.start_ns, root.span_id),
    )
    repairs = []
    for orphan in orphans if roots else ():
        foster = _foster_parent(orphan, roots)
        parents[orphan.span_id] = foster.span_id
        repairs.append(
            Repair(
                kind=RepairKind.ORPHAN,
                span_id=orphan.span_id,
                detail=f"its parent {orphan.parent_id} is not there; hung below {foster.name}",
            )
        )
    return parents, repairs


def _foster_parent(orphan: Span, roots: list[Span]) -> Span:
    own = [root for root in roots if root.service == orphan.service] or roots
    before = [root for root in own if root.start_ns <= orphan.start_ns]
    return before[-1] if before else own[0]
