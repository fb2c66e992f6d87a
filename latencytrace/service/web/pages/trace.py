"""One request: its time in stages, its spans over time, and what is worth knowing about it."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from latencytrace.analysis.trace.routes import METHODS, call_name
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import Request as FoundRequest
from latencytrace.model import Stage
from latencytrace.model.stage import IN_PARTS
from latencytrace.model.texts.escaped import is_blank, named, written_trace_id
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
from latencytrace.service.answers.sentences.after_answer import after_answer
from latencytrace.service.answers.sentences.gaps import gaps
from latencytrace.service.answers.sentences.stage_parts import stage_parts
from latencytrace.service.answers.traces.waterfall_rows import chosen, collection_pause, rows
from latencytrace.service.cohort import HOUR_NS, Cohort
from latencytrace.service.store import Store
from latencytrace.service.web.drawing.bars import segment_bar
from latencytrace.service.web.drawing.waterfall import (
    Held,
    columns,
    held_longest,
    name_of,
    row_bar,
    stall_marks,
)
from latencytrace.service.web.pages.cohort_bar import Written, next_second, whole_second, written
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address, json_block

WITHOUT_SCRIPT = 300  # rows that the page itself holds; a script draws the others
ID_DIGITS = 32
MOST_NAMED = 50  # traces that begin alike
_HEX = re.compile(r"[0-9a-f]{1,32}")
DEEP = 12  # levels, beyond which each row says its own
MOST_GAPS = 5
SHORT, FOLDED = 0.01, 3  # of the request; stages of which each is shorter, at least
MS = 10**6
LATE_NS = 60 * 10**9  # after its end: a request that was written later says so
LEAST_ALIKE = 10  # requests of a route, for its p50 to be named
CONVENTIONS = (  # how the keys begin that instrumentations write
    "client.", "code.", "container.", "db.", "enduser.", "error.", "exception.", "gen_ai.",
    "graphql.", "host.", "http.", "input.", "latencytrace.", "llm.", "messaging.", "net.",
    "network.",
    "openinference.", "otel.", "output.", "peer.", "process.", "rpc.", "server.", "telemetry.",
    "thread.", "tls.", "traceloop.", "url.", "user_agent.",
)  # fmt: skip
LITTLE = 0.05  # of what spans explain: where the longest alone took less, many held it up


def trace_pages(parts: Parts) -> APIRouter:
    """Answer at `/requests/{trace_id}`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/trace")
    def by_id(request: Request, id: str = "") -> Response:  # noqa: A002 - what the form calls it
        """Redirect to the request of a trace id or of its beginning; without one, to all."""
        asked = written(request)
        found = trace_ids(parts.service.store, id) if id.strip() else []
        if len(found) == 1 or not id.strip():
            return RedirectResponse(asked.link("/".join(("/requests", *found))), 303)
        context = {
            "path": request.url.path,
            "asked": asked,
            "title": "Traces",
            "beginning": id.strip(),
            "found": [(one, asked.link(f"/requests/{one}")) for one in found[:MOST_NAMED]],
            "more": len(found) > MOST_NAMED,
        }
        return parts.renderer.page("traces.html", context, 200 if found else 404)

    @router.get("/requests/{trace_id}")
    @collection_pause
    def trace_page(
        request: Request, trace_id: str, span_id: str | None = None, span: str | None = None
    ) -> Response:
        listed = parts.service.store.request(
            trace_id.lower(), span_id.lower() if span_id else None
        )
        if listed is None:  # the reason is in the answer
            found_request(
                parts.service.store, trace_id, span_id or None, parts.service.open_because
            )
            raise NotFoundError(f"no request has the trace id {trace_id} any more")
        head = request_document(listed)
        asked = written(request)
        shown = _head(parts, asked, listed, head)
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


def trace_ids(store: Store, text: str) -> Sequence[str]:
    """The traces that a trace id, the beginning of one or a `traceparent` names.

    Raises:
        QuestionError: The text is none of these.
    """
    beginning = written_trace_id(text)
    if not _HEX.fullmatch(beginning):
        raise QuestionError(
            f"{text.strip()!r} is not a trace ID: write up to 32 hex digits, or a traceparent"
        )
    if len(beginning) == ID_DIGITS:
        return [beginning]
    return store.trace_ids(Cohort(since_ns=0), beginning, MOST_NAMED + 1)


def trace_address(
    asked: Written, request: ListedRequestDocument, span_id: str | None = None
) -> Address:
    """The page of a request, perhaps with one of its spans open.

    Args:
        asked: The filters that its links to other pages keep.
        span_id: Of the span; None: none is open.
    """
    path = f"/requests/{request['trace_id']}"
    return asked.link(path, span_id=request["span_id"], span=span_id)


def _head(
    parts: Parts, asked: Written, request: FoundRequest, found: ListedRequestDocument
) -> Mapping[str, Any]:
    """The parts that need no spans, which can be many."""
    segments = [
        (one["stage"], one["start_ns"], one["end_ns"], one["name"]) for one in found["segments"]
    ]
    held = held_longest(found)
    who, others = who_of(request)
    named = dict(found["ledger"])
    unexplained_ns = named.pop(Stage.UNATTRIBUTED, 0)
    return {
        "title": f"{found['route']} {found['trace_id'][:12]}",
        "found": found,
        "stages_bar": segment_bar(segments, found["duration_ns"]),
        "held": held,
        "held_name": lambda: _held_name(parts.service.store, found["trace_id"], held),
        "who": who,
        "others": others,
        "usual": lambda: usual_ns(parts.service.store, request),
        "written_after_ns": lambda: written_late_ns(parts.service.store, request),
        "of_route": asked.link(
            "/requests",
            service=request.service,
            route=request.route,
            since=whole_second(request.start_ns - HOUR_NS),
            until=next_second(request.start_ns + HOUR_NS),
        ),
        "logs": (
            logs_address(parts.service.logs_url, request) if parts.service.logs_url else None
        ),
        "meanwhile": asked.link(
            "/requests",
            since=whole_second(request.start_ns),
            until=next_second(request.start_ns + request.duration_ns),
            order="newest",
        ),
        "unexplained_ns": unexplained_ns,
        "few": held and held.length_ns < LITTLE * (found["duration_ns"] - unexplained_ns),
        "longest_stage": max(named.items(), key=itemgetter(1), default=None),
        "parts_of": lambda stage: (
            stage_parts(found["segments"], stage) if stage in IN_PARTS else []
        ),
        "short_stages": short_stages,
        "after_answer": after_answer(found["after"]),
        "gaps": gaps(found["segments"], found["span_id"], MOST_GAPS),
        "perfetto": Address(
            f"/api/v1/requests/{found['trace_id']}?span_id={found['span_id']}&format=perfetto"
        ),
        "export": Address(f"/api/v1/requests/{found['trace_id']}?span_id={found['span_id']}"),
        "trace_address": partial(trace_address, asked),
        "row_bar": row_bar,
        "name_of": name_of,
    }


def short_stages(rows: Sequence[tuple[Stage, int]], whole_ns: int) -> dict[Stage, int]:
    """The stages of a ledger that a line says together: of less than 1 %, where some are."""
    short = {stage: length_ns for stage, length_ns in rows if length_ns < SHORT * whole_ns}
    return short if len(short) >= FOLDED else {}


def logs_address(template: str, request: FoundRequest) -> Address:
    """Fill the placeholders of an address of logs; values are encoded, other braces stay."""
    end_ns = request.start_ns + request.duration_ns
    values = {
        "trace_id": request.trace_id,
        "service": request.service,
        "start": whole_second(request.start_ns),
        "end": next_second(end_ns),
        "start_ms": str(request.start_ns // MS),
        "end_ms": str(-(-end_ns // MS)),
    }
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return Address(template)


def who_of(request: FoundRequest) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Labels and the user's own attributes of a request; and what conventions have beside."""
    labels = [
        (name, value)
        for name in ("version", "instance", "model")
        if (value := getattr(request, name)) is not None and value.strip()
    ]
    own = [pair for pair in request.attributes if not pair[0].startswith(CONVENTIONS)]
    others = [pair for pair in request.attributes if pair[0].startswith(CONVENTIONS)]
    return [*labels, *own], others


def usual_ns(store: Store, request: FoundRequest) -> float | None:
    """The p50 of its route within an hour before and after it; None: it is alone."""
    cohort = Cohort(
        service=request.service,
        route=request.route,
        since_ns=max(request.start_ns - HOUR_NS, 0),
        until_ns=request.start_ns + HOUR_NS,
    )
    found = store.breakdown(cohort)
    if found.duration_ns is None or found.requests < LEAST_ALIKE:
        return None
    return found.duration_ns.p50


def written_late_ns(store: Store, request: FoundRequest) -> int | None:
    """How long after its end its ledger was written; None: as soon as usual, or not noted."""
    written_ns = store.written_ns(request)
    if written_ns is None:
        return None
    after_ns = written_ns - request.start_ns - request.duration_ns
    return after_ns if after_ns > LATE_NS else None


def _held_name(store: Store, trace_id: str, held: Held | None) -> str:
    """The name of the span that it waited for longest; of a call with what it asked."""
    if held is None:
        return ""
    if held.name in METHODS:
        for span in store.spans_at([(trace_id, held.span_id)]):
            return call_name(span.name, span.attributes)
    return held.stage if is_blank(held.name) else held.name


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
    """The parts that need the spans."""
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
    opened = unclipped.get(span_id or request.span_id)

    def name_of_span(one_id: str | None) -> str | None:
        found_span = unclipped.get(one_id or "")
        return None if found_span is None else named(found_span.name)

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
