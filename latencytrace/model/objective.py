"""Objectives: the share of requests that should be fast, and the rules that watch it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from latencytrace.model.request import Request
from latencytrace.model.stage import Stage
from latencytrace.model.texts.units import duration

MINUTE_NS = 60 * 10**9
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS
SHORT_WINDOWS_IN_LONG = 12
NO_LIMIT_NS = 1 << 62  # the threshold of an objective that only failures violate
SLICE_PARTS = 1000  # of a slice of time, which may be bad in part
AVAILABILITY = "availability"
EACH_ROUTE = "*"  # the route of an objective that holds for each route of its service


def length_text(length_ns: int) -> str:
    """A window or period as people say it: `3 d`, `15 min`, `1 h 24 min`, `17.5 s`."""
    if length_ns < MINUTE_NS:
        return f"{length_ns / 10**9:.3g} s"
    return duration(length_ns).removesuffix(" 00 s").removesuffix(" 00 min").removesuffix(" 00 h")


def window_text(window_ns: int) -> str:
    """A window as Prometheus spells it: `3d`, `5m`, `840s`, `17500ms`."""
    for unit, size_ns in (("d", DAY_NS), ("h", HOUR_NS), ("m", MINUTE_NS), ("s", 10**9)):
        if window_ns % size_ns == 0:
            return f"{window_ns // size_ns}{unit}"
    return f"{window_ns // 10**6}ms"


class Measure(StrEnum):
    """The part of a request that is timed."""

    DURATION = "duration"
    UNTIL_IDLE = "until_idle"  # until the last of its spans has ended, too
    TIME_TO_FIRST_TOKEN = "time_to_first_token"  # noqa: S105 - no password
    TIME_PER_OUTPUT_TOKEN = "time_per_output_token"  # noqa: S105 - no password
    STAGE = "stage"


class Severity(StrEnum):
    """How soon a person has to act."""

    PAGE = "page"  # now
    TICKET = "ticket"  # within days


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnRule:
    """A burn rate that must be exceeded in a long and a short window for an alert to fire."""

    factor: float
    long_ns: int
    severity: Severity
    # At this factor, usual traffic has so many bad requests: this share of them must have come.
    least_ratio: float
    longest_pause_ns: int  # between two requests: without any for longer, nothing was observed

    @property
    def short_ns(self) -> int:
        """The window that ends the alert soon after the incident."""
        return self.long_ns // SHORT_WINDOWS_IN_LONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Periods that begin with the calendar, each as long as the one before or a month."""

    start: str  # of one of them: local time in ISO 8601, without a zone
    zone: str  # as IANA names it
    months: int = 0  # in a period; 0: it has days
    days: int = 0

    @property
    def text(self) -> str:
        """Return its period as people say it: `calendar month`, `calendar period of 14 d`."""
        known = _CALENDAR_PERIODS.get((self.months, self.days))
        length = f"{self.months} months" if self.months else f"{self.days} d"
        return known or f"calendar period of {length}"


_CALENDAR_PERIODS = {
    (1, 0): "calendar month",
    (3, 0): "calendar quarter",
    (12, 0): "calendar year",
    (0, 7): "calendar week",
    (0, 1): "calendar day",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlices:
    """Equal stretches of time that are judged instead of requests."""

    length_ns: int
    target_ratio: float | None  # of its requests; None: a slice is as good as this share of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A target: at least `target_ratio` of a cohort's requests within `threshold_ns`.

    With `NO_LIMIT_NS` it is an objective of availability: only what fails violates it. With
    `slices` the target is a share of these, and a tally counts their `SLICE_PARTS`.
    """

    name: str
    display_name: str
    service: str
    route: str | None  # None: any, as of the next two
    model: str | None
    version: str | None
    measure: Measure
    stage: Stage | None  # which one, where a stage is measured
    threshold_ns: int  # a request that took exactly this long is good
    target_ratio: float  # above 0, below 1
    period_ns: int  # over which the budget must last
    calendar: Calendar | None = None  # None: the period ends now
    tiers: tuple[BurnRule, ...] = ()  # that the file names; none: those of its period
    receivers: tuple[str, ...] = ()  # sinks that its alerts are for; none: all
    slices: TimeSlices | None = None  # None: requests are judged
    pages_on_silence: bool = True  # where requests that came steadily stay away

    @property
    def period_text(self) -> str:
        """Return what its target is over: `30 d`, `each calendar month`."""
        return f"each {self.calendar.text}" if self.calendar else length_text(self.period_ns)

    @property
    def budget_ratio(self) -> float:
        """The share of requests that may violate the objective."""
        return 1 - self.target_ratio

    @property
    def parts(self) -> int:
        """Weight of one judged request in a tally."""
        return 1 if self.slices is None else SLICE_PARTS

    @property
    def limit_ns(self) -> int | None:
        """The threshold; None: it is one of availability."""
        return None if self.threshold_ns == NO_LIMIT_NS else self.threshold_ns

    @property
    def measured(self) -> str:
        """Return what is timed, as objectives files spell it: `duration`, `stage:retrieve`."""
        if self.limit_ns is None:
            return AVAILABILITY
        return str(self.measure) if self.stage is None else f"{self.measure}:{self.stage}"

    def counts(self, request: Request) -> bool:
        """Return whether a request belongs to the cohort."""
        return (
            request.service == self.service
            and self.route in {None, request.route}
            and self.model in {None, request.model}
            and self.version in {None, request.version}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Requests counted in a window, and those of them that violated the objective."""

    bad: int
    total: int
    unseen_bad: int = 0  # bad requests that were sampled out, by the weight of the ones that came
    unseen: int = 0  # all requests that were sampled out

    def __add__(self, other: Self) -> "Tally":
        return Tally(
            bad=self.bad + other.bad,
            total=self.total + other.total,
            unseen_bad=self.unseen_bad + other.unseen_bad,
            unseen=self.unseen + other.unseen,
        )

    @property
    def came(self) -> "Tally":
        """The requests that came: chance is judged by these alone."""
        return Tally(bad=self.bad - self.unseen_bad, total=self.total - self.unseen)
