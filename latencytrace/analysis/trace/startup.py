"""The work of a process before it served anything: its load, no request."""

from dataclasses import replace
from typing import Final

from latencytrace.analysis.trace.is_request import is_entry
from latencytrace.model import Request, Segment, Span, Stage

LOAD_ROUTE: Final = Stage.LOAD.value


def may_be_startup(root: Span) -> bool:
    """Return whether a root may be work of starting up: it has no caller."""
    return root.parent_id is None and not is_entry(root)


def as_load(request: Request) -> Request:
    """Return what a process did before it served its first request, as its load.

    A client's call while modules are imported, or a model that is read, has a trace of its own
    and looks like a request without a caller.
    """
    segments = (
        Segment(
            start_ns=one.start_ns,
            end_ns=one.end_ns,
            stage=Stage.LOAD,
            span_id=one.span_id,
            name=one.name,
        )
        for one in request.segments
    )
    return replace(
        request,
        startup=True,
        route=LOAD_ROUTE,
        ledger={Stage.LOAD: request.duration_ns} if request.duration_ns else {},
        segments=tuple(segments),
    )
