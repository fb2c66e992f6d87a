"""Documents of requests, cohorts and services, made of a store's answers.

The views serve these; the command line asks for the same ones where it reads a folder.
Durations are integer nanoseconds, absolute times decimal strings of Unix nanoseconds,
ids lower-case hex, unknown is null.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.gpu.device_work import device_work
from latencytrace.analysis.ledger.critical_path import stage_times
from latencytrace.analysis.ledger.stalls import stalls
from latencytrace.analysis.repairs.implausible import as_believed
from latencytrace.analysis.reported import network_phases
from latencytrace.analysis.tokens.gaps import inter_token, token_times
from latencytrace.analysis.trace.error_types import error_type, failed_by
from latencytrace.analysis.trace.is_request import is_shared
from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import (
    AttributeValue,
    Breakdown,
    Link,
    Request,
    Segment,
    Span,
    SpanKind,
    Stage,
    StageBreakdown,
    StatusCode,
    Trace,
)
from latencytrace.model.texts.escaped import named
from latencytrace.service.answers.documents import (
    BreakdownDocument,
    DeviceDocument,
    InterTokenDocument,
    LinkDocument,
    ListedRequestDocument,
    OpenedRequestDocument,
    PlaceDocument,
    RequestDocument,
    RequestsDocument,
    RouteBreakdownsDocument,
    ServicesDocument,
    SpanDocument,
    SpanHeadDocument,
    StageDocument,
    StagePartDocument,
    StallDocument,
    TraceIdsDocument,
    by_stage,
    document,
)
from latencytrace.service.answers.steps import steps_of_request
from latencytrace.service.answers.traces.waterfall_rows import collection_pause
from latencytrace.service.cohort import LONGEST_NS, Cohort
from latencytrace.service.store import Order, Questions, Store, TableFormat


def between_tokens(
    trace: Trace | None, segments: Sequence[Segment]
) -> tuple[InterTokenDocument | None, list[StallDocument] | None]:
    """Quantiles of the gaps, and the stalls among them.

    Args:
        trace: Trace of the request; None: its spans were not kept.
        segments: Critical path of the request.
    """
    streams = token_times(trace) if trace else ()
    quantiles = inter_token(streams)
    if trace is None or quantiles is None:
        return None, None
    return document(InterTokenDocument, quantiles), [
        document(StallDocument, stall) for stall in stalls(trace, segments, streams)
    ]


MAX_LEDGERS = 500_000  # of one table, which is in memory as a whole
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_ID = re.compile(r"[0-9a-f]{16}")


def services(store: Store) -> ServicesDocument:
    """`GET /services`."""
    return {
        "services": [
            {"service": service, "routes": list(store.routes(service))}
            for service in store.services()
        ]
    }


def breakdown(store: Store, cohort: Cohort) -> BreakdownDocument:
    """`GET /breakdown`."""
    return breakdown_document(store.breakdown(cohort))


def breakdowns(store: Store, cohort: Cohort, limit: int) -> RouteBreakdownsDocument:
    """`GET /breakdown/routes`, of so many routes."""
    found = store.breakdowns(cohort, limit)
    return {
        "routes": [
            {"service": service, "route": route, **breakdown_document(one)}
            for (service, route), one in found.routes.items()
        ],
        "route_count": found.route_count,
    }


def requests(store: Questions, cohort: Cohort, order: Order, limit: int) -> RequestsDocument:
    """`GET /requests`: requests with their segments, without their spans."""
    found = store.requests(cohort, order, limit)
    return {
        "requests": [request_document(request) for request in found],
        "matching": store.count(cohort) if len(found) >= limit else len(found),
    }


def trace_ids(store: Store, cohort: Cohort, beginning: str, limit: int) -> TraceIdsDocument:
    """`GET /traces`: the traces whose id begins so."""
    return {"trace_ids": list(store.trace_ids(cohort, beginning.lower(), limit))}


def ledgers(store: Store, cohort: Cohort, table_format: TableFormat) -> bytes:
    """`GET /ledgers`: a table with a row for each request and a column for each stage.

    Raises:
        QuestionError: There are too many requests.
    """
    count = store.count(cohort)
    if count > MAX_LEDGERS:
        raise QuestionError(
            f"{count:,} requests are more than {MAX_LEDGERS:,} at once: take a shorter time "
            "with since and until, or fewer routes"
        )
    return store.ledgers(cohort, table_format)


@collection_pause
def request(
    store: Store,
    trace_id: str,
    span_id: str | None,
    open_because: Callable[[str], str | None],
    profiles_of: Callable[[str], list[str]],
) -> RequestDocument:
    """`GET /requests/{trace_id}`: one request with its spans.

    Args:
        trace_id: 32 hex digits.
        span_id: Span id of the request; None: the outermost of its trace.
        open_because: Returns what an open trace waits for; None: it is not open.
        profiles_of: The ids of the profiles that saw a trace.

    Raises:
        QuestionError: An id is no id.
        NotFoundError: There is none; the message says why.
    """
    found, tree = found_request(store, trace_id, span_id, open_because)
    times = stage_times(tree, found.segments) if tree else {}
    return {
        **opened_document(store, found, tree, request_document(found), profiles_of),
        "spans": [
            span_document(span, stage, found.start_ns) for span, stage in spans_in_order(tree)
        ],
        "network": network_phases(tree, found.segments) if tree else {},
        "busy": by_stage({stage: times[stage].busy_ns for stage in times}),
        "exclusive": by_stage({stage: times[stage].exclusive_ns for stage in times}),
    }


def found_request(
    store: Store, trace_id: str, span_id: str | None, open_because: Callable[[str], str | None]
) -> tuple[Request, Trace | None]:
    """One request and the tree of its spans; None: they were not kept."""
    trace_id = trace_id.lower()
    if not _TRACE_ID.fullmatch(trace_id):
        raise QuestionError(f"{trace_id!r} is not a trace ID (needs 32 hex digits)")
    if span_id is not None and not _SPAN_ID.fullmatch(span_id.lower()):
        raise QuestionError(f"{span_id!r} is no span id: it has 16 hex digits")
    found = store.request(trace_id, span_id.lower() if span_id else None)
    spans = store.kept_spans(trace_id)
    if found is None:
        raise NotFoundError(_why_not_found(trace_id, span_id, spans, open_because))
    return found, _tree_of(found, spans)


def tree_of(store: Store, found: Request) -> Trace | None:
    """The tree of a request's spans; None: they were not kept."""
    return _tree_of(found, store.kept_spans(found.trace_id))


def _tree_of(found: Request, spans: Sequence[Span]) -> Trace | None:
    trees = build_traces(spans, rootless=True, plausible=as_believed(found))
    return next((trace for trace in trees if trace.root.span_id == found.span_id), None)


def opened_document(
    store: Store,
    found: Request,
    tree: Trace | None,
    listed: ListedRequestDocument,
    profiles_of: Callable[[str], list[str]],
) -> OpenedRequestDocument:
    """A request with what its spans say about it as a whole.

    Args:
        tree: Tree of its spans; None: they were not kept.
        listed: The document of the request without spans.
        profiles_of: The ids of the profiles that saw a trace.
    """
    failure = failed_by(tree) if tree else None
    steps, steps_left_out = steps_of_request(store, tree, found) if tree else ([], 0)
    inter_token, stalls = between_tokens(tree, found.segments)
    return {
        **listed,
        "spans_kept": tree is not None,
        "error_type": failure[1] if failure else None,
        "error_span_id": failure[0].span_id if failure else None,
        "profiles": profiles_of(found.trace_id),
        "started_by": _started_by(tree) if tree else [],
        "shared_steps": steps,
        "shared_steps_left_out": steps_left_out,
        "inter_token_ns": inter_token,
        "stalls": stalls,
    }


def spans_in_order(tree: Trace | None) -> Iterator[tuple[Span, Stage]]:
    """The spans of a request in order of start, not clipped to their parents, and their stages."""
    if tree is None:
        return
    for span in sorted(tree.unclipped.values(), key=lambda span: (span.start_ns, span.span_id)):
        yield span, tree.stages[span.span_id]


def _started_by(tree: Trace) -> list[PlaceDocument]:
    """The spans of other traces that sent a consumer's message: it links to them."""
    if tree.root.kind is not SpanKind.CONSUMER:
        return []
    return [
        {"trace_id": link.trace_id, "span_id": link.span_id}
        for link in tree.root.links
        if link.trace_id != tree.root.trace_id
        and all(one.strip("0") for one in (link.trace_id, link.span_id))  # else it names none
    ]


def _why_not_found(
    trace_id: str,
    span_id: str | None,
    spans: Sequence[Span],
    open_because: Callable[[str], str | None],
) -> str:
    if (why := open_because(trace_id)) is not None:
        return f"trace {trace_id} is still open: {why}; ask again later"
    step = next((span for span in spans if is_shared(span)), None)
    if step is not None and span_id is None:
        return (
            f"trace {trace_id} is a shared step, which served many requests: "
            f"/api/v1/steps/{step.span_id} has them"
        )
    if spans and span_id is None:
        return (
            f"spans of trace {trace_id} that have arrived: {len(spans)}, but not the one of its "
            "request: see whether its sender still runs, ends and exports its spans, and "
            "leaves none out"
        )
    if spans:
        return f"no request of trace {trace_id} has the span id {span_id}; ask without span_id"
    return f"no request has the trace id {trace_id}: it never arrived, or is no longer kept"


def breakdown_document(found: Breakdown) -> BreakdownDocument:
    return document(
        BreakdownDocument,
        found,
        stages=[_stage(row) for row in found.stages],
        left_out={
            "health": found.health_left_out,
            "startup": found.startup_left_out,
            "reduced_detail": found.reduced_detail_left_out,
            "unsure": found.unsure_left_out,
        },
    )


def _stage(row: StageBreakdown) -> StageDocument:
    parts = [document(StagePartDocument, part, name=named(part.name)) for part in row.parts]
    return document(StageDocument, row, parts=parts)


def request_document(found: Request) -> ListedRequestDocument:
    """A request as its document, without spans."""
    return document(
        ListedRequestDocument,
        found,
        retries=_retries(found),
        segments=[
            {
                "start_ns": segment.start_ns,
                "end_ns": segment.end_ns,
                "stage": segment.stage,
                "span_id": segment.span_id,
                "name": named(segment.name),
            }
            for segment in found.segments
        ],
        attributes={
            key: [value for name, value in found.attributes if name == key]
            for key, _ in found.attributes
        },
    )


def _retries(found: Request) -> int:
    """Count the failed attempts that held the request up."""
    return len({segment.span_id for segment in found.segments if segment.stage is Stage.RETRY})


def span_head(span: Span, stage: Stage, request_start_ns: int) -> SpanHeadDocument:
    """The part of a span that a waterfall shows; its attributes are as they are."""
    return {
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "name": named(span.name),
        "stage": stage,
        "service": span.service,
        "start_ns": _relative(span.start_ns, request_start_ns),
        "end_ns": _relative(span.end_ns, request_start_ns),
        "status": "error" if span.status is StatusCode.ERROR else "ok",
        "error_type": error_type(span),
        "attributes": span.attributes,
    }


def span_document(span: Span, stage: Stage, request_start_ns: int) -> SpanDocument:
    """A span, not clipped to its parent, its times relative to the request's start."""
    return {
        **span_head(span, stage, request_start_ns),
        "instance": span.instance,
        "attributes": {key: _plain(value) for key, value in span.attributes.items()},
        "links": [_link(link) for link in span.links],
        "device": _device(span, request_start_ns),
    }


def _device(span: Span, request_start_ns: int) -> DeviceDocument | None:
    work = device_work(span)
    if work is None:
        return None
    return document(
        DeviceDocument,
        work,
        start_ns=_relative(work.start_ns, request_start_ns),
        end_ns=_relative(work.end_ns, request_start_ns),
    )


def _relative(at_ns: int, begin_ns: int) -> int:
    """A time after another one, as far as JSON's numbers of 64 bits go."""
    return max(min(at_ns - begin_ns, LONGEST_NS), -LONGEST_NS)


def _link(link: Link) -> LinkDocument:
    return {
        "trace_id": link.trace_id,
        "span_id": link.span_id,
        "attributes": {key: _plain(value) for key, value in link.attributes.items()},
    }


def _plain(value: AttributeValue) -> object:
    """An attribute as JSON can hold it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value
