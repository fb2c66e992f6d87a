"""The words of latencytrace: frozen values with their own arithmetic.

Import them from here: `from latencytrace.model import Span, Stage`. Each is loaded when somebody
asks for it, for a traced program needs few of them, and starts with the agent.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latencytrace.model.alert import (
        Alert,
        AlertKind,
        BadRequest,
        BurnRates,
        Distinction,
        Evidence,
        GuiltyStage,
        Standing,
    )
    from latencytrace.model.breakdown import Breakdown, Quantiles, StageBreakdown, StagePart
    from latencytrace.model.cohort import TokenRange
    from latencytrace.model.interval import Interval, pack_intervals, unpack_intervals
    from latencytrace.model.ledger import Ledger, Segment, StageTimes
    from latencytrace.model.objective import BurnRule, Measure, Objective, Severity, Tally
    from latencytrace.model.request import FirstTokenOf, MetricAttributes, Request, RequestStatus
    from latencytrace.model.shared_step import ShareBasis, SharedStep, StepMember
    from latencytrace.model.span import (
        Attributes,
        AttributeValue,
        Event,
        Link,
        Span,
        SpanKind,
        StatusCode,
    )
    from latencytrace.model.stage import Stage
    from latencytrace.model.trace import Repair, RepairKind, Trace

__all__ = [
    "Alert",
    "AlertKind",
    "AttributeValue",
    "Attributes",
    "BadRequest",
    "Breakdown",
    "BurnRates",
    "BurnRule",
    "Distinction",
    "Event",
    "Evidence",
    "FirstTokenOf",
    "GuiltyStage",
    "Interval",
    "Ledger",
    "Link",
    "Measure",
    "MetricAttributes",
    "Objective",
    "Quantiles",
    "Repair",
    "RepairKind",
    "Request",
    "RequestStatus",
    "Segment",
    "Severity",
    "ShareBasis",
    "SharedStep",
    "Span",
    "SpanKind",
    "Stage",
    "StageBreakdown",
    "StagePart",
    "StageTimes",
    "Standing",
    "StatusCode",
    "StepMember",
    "Tally",
    "TokenRange",
    "Trace",
    "pack_intervals",
    "unpack_intervals",
]

_MODULES = {
    "alert": (
        "Alert",
        "AlertKind",
        "BadRequest",
        "BurnRates",
        "Distinction",
        "Evidence",
        "GuiltyStage",
        "Standing",
    ),
    "breakdown": (
        "Breakdown",
        "Quantiles",
        "StageBreakdown",
        "StagePart",
    ),
    "cohort": ("TokenRange",),
    "interval": (
        "Interval",
        "pack_intervals",
        "unpack_intervals",
    ),
    "ledger": (
        "Ledger",
        "Segment",
        "StageTimes",
    ),
    "objective": (
        "BurnRule",
        "Measure",
        "Objective",
        "Severity",
        "Tally",
    ),
    "request": (
        "FirstTokenOf",
        "MetricAttributes",
        "Request",
        "RequestStatus",
    ),
    "shared_step": (
        "ShareBasis",
        "SharedStep",
        "StepMember",
    ),
    "span": (
        "Attributes",
        "AttributeValue",
        "Event",
        "Link",
        "Span",
        "SpanKind",
        "StatusCode",
    ),
    "stage": ("Stage",),
    "trace": (
        "Repair",
        "RepairKind",
        "Trace",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load the module that has a word."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
