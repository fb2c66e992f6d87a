"""One request: its time in stages, its spans over time, and what is worth knowing about it."""

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.errors import NotFoundError
from latencytrace.model import Request as FoundRequest
from latencytrace.model import Stage
from latencytrace.model.stage import IN_PARTS
from latencytrace.service.answers.documents import ListedRequestDocument
from latencytrace.service.answers.requests import (
    found_request,
    opened_document,
    request_document,
    span_document,
    span_head,
    spans_in_order,
    tree_of,
)
from latencytrace.service.answers.sentences.gaps import gaps
from latencytrace.service.answers.sentences.stage_parts import stage_parts
from latencytrace.service.answers.traces.collection_pause import collection_pause
from latencytrace.service.answers.traces.waterfall_rows import chosen, rows
from latencytrace.service.web.drawing.bars import segment_bar
from latencytrace.service.web.drawing.waterfall import (
    columns,
    held_longest,
    name_of,
    row_bar,
    stall_marks,
)
from latencytrace.service.web.pages.cohort_bar import Written, written
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address, json_block

WITHOUT_SCRIPT = 300  # rows that the page itself holds; a script draws the others
DEEP = 12  # levels, beyond which each row says its own
MOST_GAPS = 5
LITTLE = 0.05  # of what spans explain: where the longest alone took less, many held it up


def trace_pages(parts: Parts) -> APIRouter:
    """Answer at `/requests/{trace_id}`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/requests/{trace_id}")
    @collection_pause
    def trace_page(
        request: Request, trace_id: str, span_id: str | None = None, span: str | None = None
    ) -> Response:
        listed = parts.service.store.request(
            trace_id.lower(), span_id.lower() if span_id else None
        )
        if listed is None:  # the reason is in the answer
            found_request(parts.service.store, trace_id, span_id or None, parts.service.is_open)
            raise NotFoundError(f"no request has the trace id {trace_id} any more")
        head = request_document(listed)
        asked = written(request)
        shown = _head(asked, head)
        files = parts.files(request, _files(parts, listed, shown))
        if isinstance(files, Response):
            return files
        context = {
            "path": request.url.path,
            "asked": asked,
            "full": lambda: _full(parts, listed, head, span),
        }
        return parts.renderer.streamed("trace.html", {**context, **files, **shown})

    @router.get("/requests/{trace_id}/spans/{span_id}")
    def span_part(request: Request, trace_id: str, span_id: str, start: int) -> Response:
        """One span, for the script of the page that has all of them."""
        found = parts.service.store.spans_at([(trace_id, span_id)])
        if not found:
            raise NotFoundError(f"no span {span_id} of trace {trace_id} is kept any more")
        document = span_document(found[0], stage_of(found[0]), start)
        return parts.renderer.page(
            "span.html", {"path": request.url.path, "span": document, "is_part": True}
        )

    return router


def trace_address(
    asked: Written, request: ListedRequestDocument, span_id: str | None = None
) -> Address:
    """The page of a request, perhaps with one of its spans open.

    Args:
        asked: The filters that its links to other pages keep.
        request: The request.
        span_id: Of the span; None: none is open.
    """
    path = f"/requests/{request['trace_id']}"
    return asked.link(path, span_id=request["span_id"], span=span_id)


def _head(asked: Written, found: ListedRequestDocument) -> Mapping[str, Any]:
    """What is known without the spans, which can be many."""
    segments = [
        (one["stage"], one["start_ns"], one["end_ns"], one["name"]) for one in found["segments"]
    ]
    held = held_longest(found)
    named = dict(found["ledger"])
    unexplained_ns = named.pop(Stage.UNATTRIBUTED, 0)
    return {
        "title": f"{found['route']} {found['trace_id'][:12]}",
        "found": found,
        "stages_bar": segment_bar(segments, found["duration_ns"]),
        "held": held,
        "unexplained_ns": unexplained_ns,
        "few": held and held.length_ns < LITTLE * (found["duration_ns"] - unexplained_ns),
        "longest_stage": max(named.items(), key=itemgetter(1), default=None),
        "parts_of": lambda stage: (
            stage_parts(found["segments"], stage) if stage in IN_PARTS else []
        ),
        "gaps": gaps(found["segments"], found["span_id"], MOST_GAPS),
        "perfetto": Address(
            f"/api/v1/requests/{found['trace_id']}?span_id={found['span_id']}&format=perfetto"
        ),
        "export": Address(f"/api/v1/requests/{found['trace_id']}?span_id={found['span_id']}"),
        "trace_address": partial(trace_address, asked),
        "row_bar": row_bar,
        "name_of": name_of,
    }


def _files(parts: Parts, request: FoundRequest, shown: Mapping[str, Any]) -> list[Export]:
    """The ledger, the spans and the critical path."""

    def spans() -> list[Mapping[str, object]]:
        found = spans_in_order(tree_of(parts.service.store, request))
        return [{**span_document(span, stage, request.start_ns)} for span, stage in found]

    return [
        Export("ledger.csv", lambda: [shown["found"]["ledger"]]),
        Export("spans.csv", spans),
        Export("critical-path.svg", lambda: shown["stages_bar"]),
    ]


@collection_pause
def _full(
    parts: Parts, request: FoundRequest, head: ListedRequestDocument, span_id: str | None
) -> Mapping[str, object]:
    """What is known with the spans."""
    tree = tree_of(parts.service.store, request)
    found = opened_document(parts.service.store, request, tree, head, parts.service.profiles_of)
    unclipped = tree.unclipped if tree else {}
    spans = [
        span_head(span, tree.stages[span.span_id], request.start_ns)
        for span in unclipped.values()
        if tree
    ]
    every = rows({"segments": found["segments"], "spans": spans})
    shown = [every[place] for place in chosen(every, WITHOUT_SCRIPT)]
    opened = unclipped.get(span_id or "")

    def name_of_span(one_id: str | None) -> str | None:
        found_span = unclipped.get(one_id or "")
        return None if found_span is None else found_span.name

    return {
        "found": found,
        "opened": (
            span_document(opened, tree.stages[opened.span_id], request.start_ns)
            if tree and opened
            else None
        ),
        "span_count": len(spans),
        "rows": shown,
        "row_count": len(every),
        "is_deep": any(one.depth > DEEP for one in shown),
        "columns": json_block(columns(every, found["duration_ns"])),
        "stalls": stall_marks(found),
        "raised_in": name_of_span(found["error_span_id"]),
        "service_count": len({span.service for span in unclipped.values()}),
        "name_of_span": name_of_span,
    }
