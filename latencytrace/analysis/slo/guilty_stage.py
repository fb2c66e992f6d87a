"""Why an objective is violated: the stage that takes longer, and the call that fails."""

from collections import Counter
from collections.abc import Mapping, Sequence

from latencytrace.analysis.trace.error_types import error_type, has_failed, is_refused
from latencytrace.analysis.trace.stage_of import stage_of
from latencytrace.model import (
    FailingCall,
    GuiltyStage,
    Ledger,
    Measure,
    Objective,
    Request,
    Span,
    Stage,
)
from latencytrace.model.request import ledger_of
from latencytrace.model.texts.escaped import named


def guilty_stage(slow: Sequence[Ledger], good: Sequence[Ledger]) -> GuiltyStage | None:
    """Compare the means of slow requests with those of good ones.

    Returns:
        The stage that grew most; None: there is nothing to compare, or nothing grew.
    """
    if not slow or not good:
        return None
    usual = _means(good)
    grown = {
        stage: mean_ns - usual.get(stage, 0.0)
        for stage, mean_ns in _means(slow).items()
        if mean_ns > usual.get(stage, 0.0)
    }
    if not grown:
        return None
    stage = max(grown, key=grown.__getitem__)
    return GuiltyStage(
        stage=stage,
        excess_ns=round(grown[stage]),
        share_ratio=grown[stage] / sum(grown.values()),
    )


def measured_ledger(objective: Objective, request: Request) -> Ledger:
    """The ledger of the part of a request that an objective measures.

    What happens after the first token cannot have delayed it.
    """
    if objective.measure is Measure.UNTIL_IDLE:
        return {
            stage: request.ledger.get(stage, 0) + request.after.get(stage, 0)
            for stage in {**request.ledger, **request.after}
        }
    first_ns = request.time_to_first_token_ns
    if first_ns is None or objective.measure in {Measure.DURATION, Measure.STAGE}:
        return request.ledger
    if objective.measure is Measure.TIME_TO_FIRST_TOKEN:
        whole = ledger_of(part for part in request.segments if part.end_ns <= first_ns)
        return _with_cut(whole, request, first_ns, before=True)
    whole = ledger_of(part for part in request.segments if part.start_ns >= first_ns)
    return _with_cut(whole, request, first_ns, before=False)


def _with_cut(
    whole: dict[Stage, int], request: Request, cut_ns: int, *, before: bool
) -> Mapping[Stage, int]:
    """Add the part of the segment that the first token cuts in two."""
    for part in request.segments:
        if part.start_ns < cut_ns < part.end_ns:
            length_ns = cut_ns - part.start_ns if before else part.end_ns - cut_ns
            whole[part.stage] = whole.get(part.stage, 0) + length_ns
    return whole


def _means(ledgers: Sequence[Ledger]) -> dict[Stage, float]:
    sums: dict[Stage, int] = {}
    for ledger in ledgers:
        for stage, length_ns in ledger.items():
            sums[stage] = sums.get(stage, 0) + length_ns
    return {stage: sum_ns / len(ledgers) for stage, sum_ns in sums.items()}


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
        (named(_shown(span.name)), stage_of(span), _error(span)) for span in blamed
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
