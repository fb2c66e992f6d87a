"""The spans that contrib's ASGI middleware makes, one for each message of an application."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from latencytrace.analysis.dialects.engine import Asked
from latencytrace.model import Interval, Span, SpanKind, Stage, semconv

_STAGES = {  # how their names end
    " http send": Stage.RESPOND,
    " http receive": Stage.NETWORK,
    " websocket send": Stage.RESPOND,
    " websocket receive": Stage.NETWORK,
}
_ENDINGS = tuple(_STAGES)
_HTTP_RECEIVE = " http receive"
_HTTP_SEND = " http send"
_SCOPES = tuple(f"opentelemetry.instrumentation.{one}" for one in ("asgi", "fastapi", "starlette"))
_BODY = "http.request"  # what was received is a part of the request's body
_SENT_BODY = "http.response.body"
ASKED = Asked(words=frozenset({_BODY, _SENT_BODY}), starts=_SCOPES, ends=_ENDINGS)
LEAST_STREAMED = 3  # pieces of a body: two with content, and the empty one that ends it

_Children = Mapping[str, tuple[Span, ...]]
_Intervals = Mapping[str, tuple[Interval, ...]]


class MessageTree(NamedTuple):
    """A request's tree, its messages distinguished."""

    spans: dict[str, Span]
    children: dict[str, tuple[Span, ...]]
    intervals: dict[str, tuple[Interval, ...]]


def message_stage(span: Span) -> Stage | None:
    """The stage of a message: sending the answer, waiting for the body; None: it is none."""
    if span.kind is SpanKind.INTERNAL and span.name.endswith(_ENDINGS):
        return next(stage for ending, stage in _STAGES.items() if span.name.endswith(ending))
    return None


def with_messages(
    spans: Mapping[str, Span], children: _Children, stages: Mapping[str, Stage], packed: _Intervals
) -> MessageTree:
    """Make sends intervals of the spans that they lie in, and waits for the hang-up nothing.

    While an answer is sent, its caller keeps the request waiting, whatever else runs: so a
    send wins over the spans beside it, as `latencytrace.intervals` do. An application that
    streams listens all along for its caller's leaving; nothing waits for that, though it may
    end last of all: it stays in the tree without a length.

    Args:
        spans: Spans of one request, by span id, all clipped.
        children: By parent's span id.
        stages: By span id.
        packed: The intervals that came with the spans, by span id.
    """
    found = [
        span
        for span in spans.values()
        if span.name.endswith(_ENDINGS) and span.parent_id in spans and span.start_ns < span.end_ns
    ]
    sends: dict[str, list[Interval]] = defaultdict(list)
    emptied: dict[str, Span] = {}
    for span in found:
        if is_send(span, stages[span.span_id], children):
            sent = Interval(stage=Stage.RESPOND, start_ns=span.start_ns, end_ns=span.end_ns)
            sends[span.parent_id or ""].append(sent)
        elif awaits_hang_up(span, children):
            emptied[span.span_id] = replace(span, end_ns=span.start_ns)
    intervals = {one: (*packed.get(one, ()), *sent) for one, sent in sends.items()}
    below = {
        one: _in_order(emptied.get(child.span_id, child) for child in children[one])
        for one in {span.parent_id or "" for span in emptied.values()}
    }
    return MessageTree({**spans, **emptied}, {**children, **below}, {**packed, **intervals})


def _in_order(children: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(sorted(children, key=lambda child: (child.start_ns, child.end_ns, child.span_id)))


def is_send(span: Span, stage: Stage, children: _Children) -> bool:
    """Return whether a span is but one message sent, which is an interval of the span above."""
    return (
        stage is Stage.RESPOND
        and message_stage(span) is Stage.RESPOND
        and span.span_id not in children
    )


def is_piece(span: Span) -> bool:
    """Return whether a span is a piece of an answer's body that was sent."""
    return (
        span.kind is SpanKind.INTERNAL
        and span.name.endswith(_HTTP_SEND)
        and span.attributes.get(semconv.ASGI_EVENT_TYPE) == _SENT_BODY
    )


def awaits_hang_up(span: Span, children: Container[str]) -> bool:
    """Tell whether a span waits for the caller to leave; one that is cancelled has no message.

    It may end after the request's own span, as it is made: nothing is to be mended.
    """
    return (
        span.name.endswith(_HTTP_RECEIVE)
        and span.scope.startswith(_SCOPES)
        and span.attributes.get(semconv.ASGI_EVENT_TYPE) != _BODY
        and span.span_id not in children
    )
