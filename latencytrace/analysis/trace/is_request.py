"""The spans that are requests: what a caller asked of a service once."""

from dataclasses import replace
from typing import Final

from latencytrace.analysis.dialects.engine import Asked
from latencytrace.analysis.trace.known_engines import engine_of
from latencytrace.model import Request, Segment, Span, SpanKind, Stage, semconv

ENTRY_KINDS = frozenset({SpanKind.SERVER, SpanKind.CONSUMER})  # a message is answered, too

BATCHES: Final = {  # roots that serve many, by name, and a key of theirs: TGI's, MAX's
    "batch": semconv.TGI_BATCH_SIZE,
    "max.batch": semconv.MAX_BATCH_ID,
}
ASKED = Asked(words=frozenset(BATCHES))


def is_request(span: Span, parent: Span | None) -> bool:
    """Return whether a span is a root, or a server or consumer called by another service.

    Engines mark spans inside one service SERVER as well (Triton, vLLM, Ray); those are
    no requests, and some requests begin with a span that is marked as nothing (SGLang).
    Nor is a shared step one: it is a root, but no caller asked for it alone.
    """
    if parent is None:
        return not is_shared(span)
    return span.service != parent.service and is_entry(span)


def is_entry(span: Span) -> bool:
    """Return whether a service begins to answer with this span."""
    if span.kind in ENTRY_KINDS:
        return True
    engine = engine_of(span)
    return engine is not None and engine.entry(span)


def is_shared(span: Span) -> bool:
    """Return whether a span is work that serves many requests at once: a batch, a decode step."""
    if semconv.SHARED in span.attributes:
        return span.attributes[semconv.SHARED] is True
    key = BATCHES.get(span.name)
    return span.parent_id is None and key is not None and key in span.attributes


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
