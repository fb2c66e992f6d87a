"""The states of an objective's tiers over time: firing, held, ended."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from latencytrace.analysis.slo import traffic
from latencytrace.analysis.slo.burn_rate import burn_rate, burns, has_calmed, is_calm
from latencytrace.model import Acknowledgement, BurnRates, BurnRule, Objective, Severity, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS
from latencytrace.service.objectives.counts import ObjectiveCounts

LONGEST_SILENCE_NS = DAY_NS  # an alert is held through silence, but not for ever


@dataclass(slots=True, kw_only=True)
class TierState:
    """The moments since which a tier fires, and is calm."""

    firing_ns: int | None = None
    calm_ns: int | None = None

    def step(
        self, rule: BurnRule, counts: ObjectiveCounts, now_ns: int, *, alert_fires: bool
    ) -> BurnRates:
        """Look at the two windows of the tier, and decide.

        Args:
            alert_fires: Whether a tier of this severity did at the last step: then one that
                is not calm keeps the alert from ending.
        """
        long = counts.tally(now_ns, rule.long_ns)
        short = counts.tally(now_ns, rule.short_ns)
        objective = counts.objective
        # How much was observed, and what is usual, can only prevent; they cost more to know.
        if alert_fires or burns(objective, rule, long, short, 1.0):
            self._decide(rule, counts, (long, short), now_ns, alert_fires=alert_fires)
        return BurnRates(
            rule=rule,
            long=burn_rate(objective, long),
            short=burn_rate(objective, short),
            firing=self.firing_ns is not None,
        )

    def _decide(
        self,
        rule: BurnRule,
        counts: ObjectiveCounts,
        windows: tuple[Tally, Tally],
        now_ns: int,
        *,
        alert_fires: bool,
    ) -> None:
        long, short = windows
        coverage_ratio = counts.coverage_ratio(now_ns, rule.long_ns, rule.longest_pause_ns)
        usual = counts.usual_requests(now_ns, rule.long_ns)
        if burns(counts.objective, rule, long, short, coverage_ratio, usual):
            self.firing_ns = now_ns if self.firing_ns is None else self.firing_ns
            self.calm_ns = None
            return
        calm = is_calm(counts.objective, rule, long, short, coverage_ratio)
        if self.firing_ns is None and (calm is not False or not alert_fires):
            return
        if self.firing_ns is None:
            self.firing_ns = now_ns
        if calm is False:
            self.calm_ns = None
        elif calm and self.calm_ns is None:
            self.calm_ns = now_ns
        silent_ns = now_ns - (counts.rings.last_ns() or self.firing_ns)
        if self._has_calmed(rule, counts, now_ns) or silent_ns > LONGEST_SILENCE_NS:
            self.firing_ns = self.calm_ns = None

    def _has_calmed(self, rule: BurnRule, counts: ObjectiveCounts, now_ns: int) -> bool:
        if self.calm_ns is None:
            return False
        calm_ns = now_ns - self.calm_ns
        since = counts.tally(now_ns, max(calm_ns, 1))
        return has_calmed(counts.objective, rule, since, calm_ns)


@dataclass(slots=True, kw_only=True)
class SilenceState:
    """The silence, or collapse, of an objective whose requests came steadily."""

    firing_ns: int | None = None
    expected: float = 0.0  # requests in ten minutes when it began

    def step(
        self, counts: ObjectiveCounts, started_ns: int, now_ns: int, *, page_fires: bool
    ) -> None:
        """Look at how many requests came of late, and decide.

        Args:
            started_ns: Since when the evaluator runs.
            page_fires: Whether the objective burns, which says more than few requests.
        """
        last_ns = counts.rings.last_ns()
        if last_ns is None:
            self.firing_ns = None
        elif self.firing_ns is not None:
            back = traffic.has_returned(self.expected, counts.requests(now_ns, traffic.RETURN_NS))
            if back or now_ns - max(self.firing_ns, started_ns) > LONGEST_SILENCE_NS:
                self.firing_ns = None
        else:
            self._begin(counts, last_ns, started_ns, now_ns, page_fires=page_fires)

    def _begin(
        self,
        counts: ObjectiveCounts,
        last_ns: int,
        started_ns: int,
        now_ns: int,
        *,
        page_fires: bool,
    ) -> None:
        listened_ns = now_ns - started_ns
        if listened_ns < traffic.LOOK_NS or now_ns - last_ns > LONGEST_SILENCE_NS:
            return
        if last_ns < started_ns < now_ns - HOUR_NS:
            return  # it would have been news before
        look = counts.requests(now_ns, traffic.LOOK_NS)
        both = counts.requests(now_ns, HOUR_NS + traffic.LOOK_NS)
        if 2 * look.total > both.total * traffic.LOOK_NS / HOUR_NS and last_ns >= started_ns:
            return  # the usual case, found out with little work
        latest_ns = last_ns if last_ns < started_ns else now_ns
        looks = [one for one in traffic.LOOKS_NS if one <= listened_ns]
        expected = _missed(counts, looks, latest_ns, now_ns)
        failing = counts.requests(now_ns, traffic.FAILING_NS)
        if expected is None or (
            look.total and (page_fires or traffic.mostly_fails(look, failing))
        ):
            return
        if traffic.has_returned(expected, counts.requests(now_ns, traffic.RETURN_NS)):
            return
        if not counts.is_lull(now_ns, traffic.RETURNED_RATIO * expected):
            self.firing_ns, self.expected = now_ns, expected


@dataclass(slots=True, kw_only=True)
class TierStates:
    """All tiers of an objective."""

    of_rule: dict[BurnRule, TierState] = field(default_factory=dict)

    def step(self, counts: ObjectiveCounts, now_ns: int) -> tuple[BurnRates, ...]:
        """Let each decide."""
        firing = {
            rule.severity for rule, tier in self.of_rule.items() if tier.firing_ns is not None
        }
        return tuple(
            tier.step(rule, counts, now_ns, alert_fires=rule.severity in firing)
            for rule, tier in self.of_rule.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """The beginning of an alert, which is shown with it until its end."""

    started_ns: int
    onset_ns: int | None  # since when requests were bad, by the formula; None: not known
    acknowledged: Acknowledgement | None = None

    def kept(self) -> list[object]:
        said = () if self.acknowledged is None else (asdict(self.acknowledged),)
        return [self.started_ns, self.onset_ns, *said]

    @classmethod
    def read(cls, kept: Sequence[Any]) -> Self:
        started_ns, onset_ns, *said = kept
        acknowledged = Acknowledgement(**said[0]) if said else None
        return cls(started_ns=started_ns, onset_ns=onset_ns, acknowledged=acknowledged)


@dataclass(slots=True, kw_only=True)
class ObjectiveState:
    """The state of an objective beside its counts."""

    tiers: TierStates = field(default_factory=TierStates)
    silence: SilenceState = field(default_factory=SilenceState)
    announced: dict[str, Announced] = field(default_factory=dict)  # by name/severity
    closed_ns: int | None = None  # the start of the latest slice of time that was judged

    def step(self, counts: ObjectiveCounts, started_ns: int, now_ns: int) -> tuple[BurnRates, ...]:
        """Let tiers decide, and then whether requests stay away."""
        rates = self.tiers.step(counts, now_ns)
        page_fires = any(rate.firing and rate.rule.severity is Severity.PAGE for rate in rates)
        if counts.objective.pages_on_silence:
            self.silence.step(counts, started_ns, now_ns, page_fires=page_fires)
        else:
            self.silence.firing_ns = None
        return rates

    def text(self, objective: Objective) -> str:
        """All of it, to be kept; with whose it is, for the file may forget that one."""
        return json.dumps(
            {
                "objective": asdict(objective),
                "announced": {key: began.kept() for key, began in self.announced.items()},
                "silence": self.silence.firing_ns,
                "expected": self.silence.expected,
                "closed": self.closed_ns,
                "tiers": {
                    _name(rule): [tier.firing_ns, tier.calm_ns]
                    for rule, tier in self.tiers.of_rule.items()
                },
            }
        )

    def read(self, text: str) -> None:
        """Take up what was kept."""
        kept = json.loads(text)
        self.announced = {
            key: Announced.read(began) for key, began in kept.get("announced", {}).items()
        }
        self.silence.firing_ns = kept.get("silence")
        self.silence.expected = kept.get("expected", 0.0)
        self.closed_ns = kept.get("closed")
        tiers = kept.get("tiers", {})
        for rule, tier in self.tiers.of_rule.items():
            # An older version kept them by their factor alone.
            kept_tier = tiers.get(_name(rule)) or tiers.get(f"{rule.factor:g}", (None, None))
            tier.firing_ns, tier.calm_ns = kept_tier


def _name(rule: BurnRule) -> str:
    """A tier's name in what is kept; the outage's factor may be that of another."""
    if not rule.least_ratio:
        return "outage"
    return f"{rule.factor:g}/{rule.long_ns}/{rule.severity}"


def _missed(
    counts: ObjectiveCounts, looks_ns: Sequence[int], latest_ns: int, now_ns: int
) -> float | None:
    """The requests that ten minutes would bring, where far fewer came; None: they did not.

    Args:
        looks_ns: How long requests may have stayed away.
        latest_ns: The hour of before ends here, or earlier.
    """
    part_ns = HOUR_NS // traffic.PARTS
    for look_ns in looks_ns:
        before_ns = min(now_ns - look_ns, latest_ns)
        hour = [
            counts.requests(before_ns - place * part_ns, part_ns - 1).total
            for place in range(traffic.PARTS)
        ]
        expected = traffic.expected_requests(hour)
        came = counts.requests(now_ns, look_ns).total
        if expected is not None and traffic.has_collapsed(expected, came, look_ns):
            return expected
    return None
