"""Alerts: an objective that burns too fast, or without data, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from latencytrace.model.objective import BurnRule, Objective, Severity
from latencytrace.model.request import Ledger, RequestStatus
from latencytrace.model.stage import Stage

MOSTLY = 0.5  # of the bad requests, or of their excess: below, no single cause is named


class AlertKind(StrEnum):
    """The kind of fault; the value is the alert's name."""

    BURN = "LatencySLOBurn"
    NO_DATA = "LatencySLONoData"


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnRates:
    """Rates at which the budget is spent in the two windows of a tier."""

    rule: BurnRule
    long: float | None  # None: no traffic
    short: float | None
    firing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GuiltyStage:
    """The stage that slow requests spend most of their extra time in."""

    stage: Stage
    excess_ns: int  # its mean in slow requests less its mean in good ones
    share_ratio: float  # of the excess of all stages that grew


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingCall:
    """The call that failed requests have in common."""

    name: str  # of its span
    stage: Stage
    error: str | None  # its type
    share_ratio: float  # of the failed requests that were looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinction:
    """A trait that bad requests have in common and good ones have less."""

    trait: str  # `instance`, `input_tokens`
    value: str  # `rag-2`, `over 4096`
    bad_ratio: float  # of the bad requests that have it
    good_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRequest:
    """One that violated the objective."""

    trace_id: str
    span_id: str
    status: RequestStatus
    duration_ns: int
    ledger: Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Findings about the newest requests that violated an objective in this burn."""

    guilty: GuiltyStage | None  # None: nothing to compare with, or most were not slow
    failed_ratio: float | None  # of the bad ones; the others were slow; None: no bad one
    version: str | None  # that sets the bad ones apart
    distinctions: tuple[Distinction, ...]  # the strongest first
    slowest: tuple[BadRequest, ...]  # three; where most failed, the newest that did
    failing: FailingCall | None = None  # None: most did not fail, or it is not known

    @property
    def mostly_failed(self) -> bool:
        """Return whether most bad requests failed and were not slow."""
        return self.failed_ratio is not None and self.failed_ratio >= MOSTLY

    @property
    def answer(self) -> str | None:
        """Return the cause in short: an alert is amended where it changes; None: not known."""
        if self.mostly_failed:
            return None if self.failing is None else f"{self.failing.name} fails"
        if self.guilty is None:
            return None
        return self.guilty.stage if self.guilty.share_ratio >= MOSTLY else "no single stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An alert that a person looks after: no reminders are sent."""

    at_ns: int
    by: str | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of an objective at one moment."""

    objective: Objective
    rates: tuple[BurnRates, ...]  # of each tier, the fastest first
    bad: int  # in the period
    total: int
    budget_left_ratio: float | None  # below 0: overdrawn; None: no traffic
    exhaustion_ns: int | None  # from now; None: never, or unknown
    last_request_ns: int | None
    budget_since_ns: int | None = None  # when the calendar's period began; None: it rolls


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert that fires, or that has been resolved."""

    kind: AlertKind
    severity: Severity
    onset_ns: int | None  # since when requests have been bad, about; None: not known
    started_ns: int  # since the Unix epoch
    ended_ns: int | None  # None: it fires
    bad_ratio: float | None  # in the long window of the fastest tier that fires
    window_ns: int | None  # that window
    standing: Standing
    evidence: Evidence
    traffic_ratio: float | None = None  # of what was to be expected; None: no news of that
    end_reason: str | None = None  # None: it fires, or the objective is met again
    acknowledged: Acknowledgement | None = None  # None: not acknowledged

    @property
    def labels(self) -> Mapping[str, str]:
        """Return what it is known by: the same from its first moment to its last."""
        objective = self.standing.objective
        labels = {
            "alertname": str(self.kind),
            "slo": objective.name,
            "service": objective.service,
            "severity": str(self.severity),
        }
        return labels | ({"route": objective.route} if objective.route else {})

    @property
    def fingerprint(self) -> str:
        """Its labels and start in short."""
        named = "\0".join(f"{name}\0{value}" for name, value in sorted(self.labels.items()))
        return sha256(f"{named}\0{self.started_ns}".encode()).hexdigest()[:32]
