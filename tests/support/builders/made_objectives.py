"""Objectives as a file would promise them."""

from latencytrace.model import Measure, Objective
from latencytrace.model.objective import DAY_NS

SECOND_NS = 10**9


def made_objective(**more: object) -> Objective:
    """99 % of `POST /chat` within 2 s over 30 days, but for what is said otherwise."""
    fields: dict[str, object] = {
        "name": "chat-e2e",
        "display_name": "99 % under 2 s",
        "service": "rag",
        "route": "POST /chat",
        "model": None,
        "version": None,
        "measure": Measure.DURATION,
        "stage": None,
        "threshold_ns": 2 * SECOND_NS,
        "target_ratio": 0.99,
        "period_ns": 30 * DAY_NS,
    }
    return Objective(**{**fields, **more})  # type: ignore[arg-type] # any field may be given
