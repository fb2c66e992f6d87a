"""The words of latencytrace: frozen values with their own arithmetic.

Import them from here: `from latencytrace.model import Span, Stage`.
"""

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
from latencytrace.model.cohort import DurationRange, TokenRange
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
    "DurationRange",
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
