"""Cuts loops of spans that are their own ancestors."""

from latencytrace.model import Repair, RepairKind, Span


def cut_cycles(spans: dict[str, Span]) -> tuple[frozenset[str], list[Repair]]:
    """The spans to be cut off their parents, so that no span is its own ancestor.

    Returns:
        One span id a loop: its earliest span, of those the one with the smallest id.
    """
    finished: set[str] = set()
    cut: set[str] = set()
    repairs = []
    for first, span in spans.items():
        if span.parent_id in finished:  # as of most
            finished.add(first)
            continue
        walked: dict[str, None] = {}
        at: str | None = first
        while at is not None and at in spans and at not in finished and at not in walked:
            walked[at] = None
            at = spans[at].parent_id
        if at is not None and at in walked:
            path = list(walked)
            loop = path[path.index(at) :]
            earliest = min(loop, key=lambda span_id: (spans[span_id].start_ns, span_id))
            cut.add(earliest)
            repairs.append(
                Repair(
                    kind=RepairKind.CYCLE,
                    span_id=earliest,
                    detail=f"{len(loop)} spans were each other's ancestors; cut above this one",
                )
            )
        finished.update(walked)
    return frozenset(cut), repairs
