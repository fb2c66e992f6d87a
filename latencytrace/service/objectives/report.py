"""The report of a month: how each objective was kept, and each day's part of that."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from typing_extensions import TypedDict

from latencytrace.model import Objective, Tally
from latencytrace.model.objective import DAY_NS
from latencytrace.service.answers.documents import document

History = Sequence[tuple[Objective, Sequence[tuple[int, Tally]]]]  # counts by day, since the epoch


class DayDocument(TypedDict):
    """The requests of an objective on a day, in UTC."""

    day: str
    requests: int
    bad_requests: int
    budget_spent_ratio: float | None  # of the day's own budget; over 1: more than was sustainable


class ObjectiveReportDocument(TypedDict):
    """How an objective was kept in a month."""

    name: str
    display_name: str
    service: str
    route: str | None
    measure: str
    threshold_ns: int | None
    target_ratio: float
    time_slice_ns: int | None  # None: requests are counted, else slices
    time_slice_target_ratio: float | None
    requests: int
    bad_requests: int
    good_ratio: float | None
    is_met: bool | None  # None: no request came
    budget_spent_ratio: float | None
    days: list[DayDocument]


class ReportDocument(TypedDict):
    """How all objectives were kept in a month."""

    month: str
    objectives: list[ObjectiveReportDocument]


def month_of(now_ns: int) -> str:
    """Return the month of a moment, in UTC: `2026-11`."""
    return f"{datetime.fromtimestamp(now_ns // 10**9, UTC):%Y-%m}"


def report(history: History, month: str) -> ReportDocument:
    """Return what became of objectives in a month.

    Args:
        history: Counts of the objectives by day.
        month: As `2026-11`, in UTC.
    """
    return {"month": month, "objectives": [_objective(*one, month) for one in history]}


def _objective(
    objective: Objective, days: Sequence[tuple[int, Tally]], month: str
) -> ObjectiveReportDocument:
    named = [(_day_text(day), tally) for day, tally in days]
    within = [(day, tally) for day, tally in named if day.startswith(month)]
    whole = _sum(tally for _, tally in within)
    good_ratio = 1 - whole.bad / whole.total if whole.total else None
    return document(
        ObjectiveReportDocument,
        objective,
        measure=objective.measured,
        threshold_ns=objective.limit_ns,
        time_slice_ns=objective.slices.length_ns if objective.slices else None,
        time_slice_target_ratio=objective.slices.target_ratio if objective.slices else None,
        requests=whole.total // objective.parts,
        bad_requests=round(whole.bad / objective.parts),
        good_ratio=good_ratio,
        # A budget that is spent to the last request is kept, whatever the rounding.
        is_met=None if good_ratio is None else (_spent(objective, whole) or 0.0) <= 1 + 1e-9,
        budget_spent_ratio=_spent(objective, whole),
        days=[
            {
                "day": day,
                "requests": tally.total // objective.parts,
                "bad_requests": round(tally.bad / objective.parts),
                "budget_spent_ratio": _spent(objective, tally),
            }
            for day, tally in within
        ],
    )


def _spent(objective: Objective, tally: Tally) -> float | None:
    return tally.bad / tally.total / objective.budget_ratio if tally.total else None


def _sum(tallies: Iterable[Tally]) -> Tally:
    return sum(tallies, Tally(bad=0, total=0))


def _day_text(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY_NS // 10**9, UTC):%Y-%m-%d}"
