"""The words of latencytrace: frozen values with their own arithmetic.

Import them from here: `from latencytrace.model import Span, Stage`. A word's file is read when
the word is first asked for: making all classes takes time, and a traced process needs few.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latencytrace.model.alert import (
        Acknowledgement,
        Alert,
        AlertKind,
        BadRequest,
        BurnRates,
        Distinction,
        Evidence,
        FailingCall,
        GuiltyStage,
        Standing,
    )
    from latencytrace.model.cohorts.breakdown import (
        Breakdown,
        DurationRange,
        Quantiles,
        StageBreakdown,
        StagePart,
        TokenRange,
    )
    from latencytrace.model.gpu import ShareBasis, SharedStep, StepMember
    from latencytrace.model.objective import (
        BurnRule,
        Calendar,
        Measure,
        Objective,
        Severity,
        Tally,
    )
    from latencytrace.model.packed import Interval, pack_intervals, unpack_intervals
    from latencytrace.model.request import (
        FirstTokenOf,
        Ledger,
        MetricAttributes,
        Request,
        RequestStatus,
        Segment,
        StageTimes,
    )
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
    "Acknowledgement",
    "Alert",
    "AlertKind",
    "AttributeValue",
    "Attributes",
    "BadRequest",
    "Breakdown",
    "BurnRates",
    "BurnRule",
    "Calendar",
    "Distinction",
    "DurationRange",
    "Event",
    "Evidence",
    "FailingCall",
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

# In this order: each needs only those before it.
_HOMES = (
    "stage",
    "span",
    "packed",
    "trace",
    "request",
    "cohorts.breakdown",
    "gpu",
    "objective",
    "alert",
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in __all__:
            for home in _HOMES:
                module = import_module(f"{__name__}.{home}")
                if hasattr(module, name):
                    return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
