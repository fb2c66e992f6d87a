"""One request: its time divided, its spans over time, and what is worth knowing about it."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.errors import NotFoundError
from latencytrace.service.answers.documents import (
    ListedRequestDocument,
    RequestDocument,
    SegmentDocument,
    SpanDocument,
)
from latencytrace.service.answers.requests import span_document
from latencytrace.service.answers.waterfall_rows import chosen, rows
from latencytrace.service.web.drawing.bars import segment_bar
from latencytrace.service.web.drawing.waterfall import (
    columns,
    gaps,
    name_of,
    row_bar,
    stall_marks,
)
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address

WITHOUT_SCRIPT = 300  # rows that the page itself holds; a script draws the others
MOST_GAPS = 5
MOST_SEGMENTS = 2000  # of the critical path that are drawn in one bar


def trace_pages(parts: Parts) -> APIRouter:
    """Answer at `/requests/{trace_id}`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/requests/{trace_id}")
    def trace_page(
        request: Request, trace_id: str, span_id: str | None = None, span: str | None = None
    ) -> Response:
        found = parts.request(trace_id, span_id or None)
        opened = next((one for one in found["spans"] if one["span_id"] == span), None)
        return parts.renderer.page(
            "trace.html", {"path": request.url.path, **_context(found, opened)}
        )

    @router.get("/requests/{trace_id}/spans/{span_id}")
    def span_part(request: Request, trace_id: str, span_id: str, start: int) -> Response:
        """One span, for the script of the page that has all of them."""
        found = parts.store.spans_at([(trace_id, span_id)])
        if not found:
            raise NotFoundError(f"no span {span_id} of trace {trace_id} is kept any more")
        document = span_document(found[0], stage_of(found[0]), start)
        return parts.renderer.page(
            "span.html", {"path": request.url.path, "span": document, "is_part": True}
        )

    return router


def trace_address(request: ListedRequestDocument, span_id: str | None = None) -> Address:
    """The page of a request, perhaps with one of its spans open."""
    opened = f"&span={span_id}" if span_id else ""
    return Address(f"/requests/{request['trace_id']}?span_id={request['span_id']}{opened}")


def _context(found: RequestDocument, opened: SpanDocument | None) -> Mapping[str, object]:
    every = list(rows(found))
    whole_ns = found["duration_ns"]
    segments = found["segments"]
    names = {one["span_id"]: one["name"] for one in found["spans"]}
    services = {one["service"] for one in found["spans"]}
    return {
        "title": f"{found['route']} {found['trace_id'][:12]}",
        "found": found,
        "opened": opened,
        "rows": chosen(every, WITHOUT_SCRIPT),
        "row_count": len(every),
        "columns": columns(every, whole_ns),
        "row_bar": row_bar,
        "name_of": name_of,
        "divided": segment_bar(
            (
                (one["stage"], one["start_ns"], one["end_ns"], one["name"])
                for one in _longest(segments)
            ),
            whole_ns,
        ),
        "gaps": gaps(found, MOST_GAPS),
        "stalls": stall_marks(found),
        "raised_in": names.get(found["error_span_id"] or ""),
        "services": sorted(services),
        "export": Address(f"/api/v1/requests/{found['trace_id']}?span_id={found['span_id']}"),
        "trace_address": trace_address,
        "names": names,
    }


def _longest(segments: list[SegmentDocument]) -> list[SegmentDocument]:
    if len(segments) <= MOST_SEGMENTS:
        return segments
    ranked = sorted(segments, key=lambda one: one["start_ns"] - one["end_ns"])
    return sorted(ranked[:MOST_SEGMENTS], key=lambda one: one["start_ns"])
