"""The stage that slow requests spend their extra time in."""

from collections.abc import Mapping, Sequence

from latencytrace.model import GuiltyStage, Ledger, Measure, Objective, Request, Stage
from latencytrace.model.ledger import ledger_of


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
