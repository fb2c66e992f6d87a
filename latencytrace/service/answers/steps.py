"""Documents of shared steps: the requests served together, and what each cost the others."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from latencytrace.analysis.gpu.shared_steps import shared_step
from latencytrace.analysis.trace.is_request import is_shared
from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import Link, Request, SharedStep, Span, StepMember, Trace, semconv
from latencytrace.model.texts.escaped import named
from latencytrace.service.answers.documents import (
    RequestStepDocument,
    StepDocument,
    StepFieldsDocument,
    StepMemberDocument,
    document,
)
from latencytrace.service.store import Store

MOST_STEPS = 8  # shown with a request: the ones that held it up longest
MOST_OTHERS = 3  # shown of each
_SPAN_ID = re.compile(r"[0-9a-f]{16}")

_Place = tuple[str, str]  # trace id, span id


def step(store: Store, span_id: str) -> StepDocument:
    """`GET /steps/{span_id}`: a shared step and all its members.

    Raises:
        QuestionError: The id is no id.
        NotFoundError: There is no such step; the message says why.
    """
    span_id = span_id.lower()
    if not _SPAN_ID.fullmatch(span_id):
        raise QuestionError(f"{span_id!r} is no span id: it has 16 hex digits")
    found = store.spans_of_id(span_id)
    shared = next((span for span in found if is_shared(span)), None)
    if shared is None and found:
        raise NotFoundError(
            f"span {span_id} is no shared step: ask for /requests/{found[0].trace_id}"
        )
    if shared is None:
        raise NotFoundError(f"no span has the id {span_id}: it never arrived, or is not kept")
    (found_step,) = found_steps(store, [shared])
    requests = _requests_of(store, found_step.members)
    return {
        **_step_document(found_step),
        "members": [_member_document(member, requests) for member in found_step.members],
        "unknown_members": found_step.unknown_members,
        "unknown_share_ns": found_step.unknown_share_ns,
    }


def steps_of_request(
    store: Store, tree: Trace, found: Request
) -> tuple[list[RequestStepDocument], int]:
    """The shared steps that held a request up, the longest first.

    Returns:
        Them, and how many more there are.
    """
    held_up = held_up_by(tree, found)
    if not held_up:
        return [], 0
    known = {
        (span.trace_id, span.span_id): span
        for span in store.spans_at([(link.trace_id, link.span_id) for link, _, _ in held_up])
    }
    by_step: dict[_Place, tuple[Span, int]] = {}
    for link, member, held_up_ns in held_up:
        place = (link.trace_id, link.span_id)
        if link.attributes.get(semconv.SHARED) is True or (
            place in known and is_shared(known[place])
        ):
            before_ns = by_step[place][1] if place in by_step else 0
            by_step[place] = (member, before_ns + held_up_ns)
    longest = sorted(by_step.items(), key=lambda item: (-item[1][1], item[0]))
    shown = longest[:MOST_STEPS]
    steps = {
        (one.span.trace_id, one.span.span_id): one
        for one in found_steps(store, [known[place] for place, _ in shown if place in known])
    }
    others = {
        place: [one for one in step.members if one.trace_id != found.trace_id][:MOST_OTHERS]
        for place, step in steps.items()
    }
    requests = _requests_of(store, [one for few in others.values() for one in few])
    documents: list[RequestStepDocument] = []
    for place, (member, held_up_ns) in shown:
        documents.append(
            {
                **(
                    _step_document(steps[place])
                    if place in steps
                    else _unkept_document(place, member, tree)
                ),
                "held_up_ns": held_up_ns,
                "share_ns": sum(
                    one.share_ns for one in steps[place].members if one.trace_id == found.trace_id
                )
                if place in steps
                else None,
                "largest_others": [
                    _member_document(one, requests) for one in others.get(place, ())
                ],
            }
        )
    return documents, len(longest) - len(shown)


def held_up_by(tree: Trace, found: Request) -> list[tuple[Link, Span, int]]:
    """Links out of the trace of spans that the request waited for, and how long it did."""
    links = {
        span.span_id: [link for link in span.links if link.trace_id != found.trace_id]
        for span in tree.spans.values()
        if span.links
    }
    waited_ns: dict[str, int] = {}
    for segment in found.segments if links else ():
        span = tree.spans.get(segment.span_id)
        while span is not None and not links.get(span.span_id):
            span = tree.spans.get(span.parent_id or "")
        if span is not None:
            length_ns = segment.end_ns - segment.start_ns
            waited_ns[span.span_id] = waited_ns.get(span.span_id, 0) + length_ns
    return [
        (link, tree.spans[span_id], length_ns)
        for span_id, length_ns in waited_ns.items()
        for link in links[span_id]
    ]


def found_steps(store: Store, steps: Sequence[Span], *, look_up: bool = True) -> list[SharedStep]:
    """Steps with the members that can be found.

    Args:
        look_up: Whether members that a step does not name are looked up, a question each.
    """
    places = {(link.trace_id, link.span_id) for step in steps for link in step.links}
    linked = list(store.spans_at(places)) if places else []
    found = [shared_step(step, linked) for step in steps]
    return [
        shared_step(one.span, [*linked, *store.linking_to(one.span)])
        if look_up and (one.unknown_members or not one.members)
        else one
        for one in found
    ]


def _requests_of(store: Store, members: Iterable[StepMember]) -> Mapping[str, Collection[Request]]:
    trace_ids = {member.trace_id for member in members}
    requests: dict[str, list[Request]] = {}
    for request in store.requests_of(trace_ids) if trace_ids else ():
        requests.setdefault(request.trace_id, []).append(request)
    return requests


def _step_document(found: SharedStep) -> StepFieldsDocument:
    return document(StepFieldsDocument, found, found.span, name=named(found.span.name))


def _unkept_document(place: _Place, member: Span, tree: Trace) -> StepFieldsDocument:
    """A step that did not arrive, or is no longer kept, as its member describes it."""
    size = member.attributes.get(semconv.BATCH_SIZE)
    return {
        "trace_id": place[0],
        "span_id": place[1],
        "name": named(member.name),
        "service": member.service,
        "instance": member.instance,
        "stage": tree.stages[member.span_id],
        "start": str(member.start_ns),
        "wall_ns": member.end_ns - member.start_ns,
        "size": size if isinstance(size, int) else None,
        "tokens": None,
        "basis": None,
    }


def _member_document(
    member: StepMember, requests: Mapping[str, Collection[Request]]
) -> StepMemberDocument:
    request = _request_of(member, requests.get(member.trace_id, ()))
    span = member.span
    service = span.service if span else request.service if request else None
    return document(
        StepMemberDocument,
        member,
        service=service,
        route=request.route if request else None,
        wall_ns=max(span.end_ns - span.start_ns, 0) if span else None,
    )


def _request_of(member: StepMember, requests: Collection[Request]) -> Request | None:
    """The request of the member's own service, else the outermost of its trace."""
    service = member.span.service if member.span else None
    ranked = sorted(
        requests, key=lambda one: (one.service != service, not one.outermost, one.start_ns)
    )
    return ranked[0] if ranked else None
