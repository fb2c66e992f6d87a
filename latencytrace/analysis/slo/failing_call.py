"""The call that failed requests have in common: the deepest one that failed in each."""

from collections import Counter
from collections.abc import Mapping, Sequence

from latencytrace.analysis.trace.error_types import error_type
from latencytrace.analysis.trace.http_answers import has_failed, is_refused
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import FailingCall, Span

_MOST_CHARACTERS = 100


def failing_call(requests: Mapping[str, Sequence[Span]]) -> FailingCall | None:
    """Name the call that made requests fail.

    Args:
        requests: The spans below each failed request, by its span id; the request's own
            may be among them.

    Returns:
        The one that most have; None: no call below any of them failed.
    """
    blamed = [span for span_id, spans in requests.items() if (span := _blamed(span_id, spans))]
    if not blamed:
        return None
    [((name, stage, error), count)] = Counter(
        (_shown(span.name), stage_of(span), _error(span)) for span in blamed
    ).most_common(1)
    return FailingCall(name=name, stage=stage, error=error, share_ratio=count / len(requests))


def _blamed(request_id: str, spans: Sequence[Span]) -> Span | None:
    """Return the last of the failed calls that no call of their own made fail."""
    parents = {span.span_id: span.parent_id for span in spans}
    failed = [span for span in spans if has_failed(span) and not is_refused(span)]
    below = [span for span in failed if _is_below(span.span_id, request_id, parents)]
    made_fail = {span.parent_id for span in below}
    deepest = [span for span in below if span.span_id not in made_fail]
    return max(deepest, key=lambda span: span.end_ns, default=None)


def _is_below(span_id: str, request_id: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    above = parents.get(span_id)
    while above is not None and above not in seen:
        if above == request_id:
            return True
        seen.add(above)
        above = parents.get(above)
    return False


def _error(span: Span) -> str | None:
    """Return the type of the error; its text may hold content."""
    found = error_type(span)
    return None if found is None else _shown(found)


def _shown(text: str) -> str:
    """Make what a sender calls itself fit for logs, terminals and messages."""
    return "".join(one if one.isprintable() else "?" for one in text)[:_MOST_CHARACTERS]
