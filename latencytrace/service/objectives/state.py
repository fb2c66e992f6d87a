"""The states of an objective's tiers over time: firing, held, ended."""

import json
from dataclasses import asdict, dataclass, field

from latencytrace.analysis.slo.burn_rate import burn_rate, burns, is_calm, keep_firing_ns
from latencytrace.model import BurnRates, BurnRule, Objective, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.objectives.counts import ObjectiveCounts

LONGEST_SILENCE_NS = DAY_NS  # an alert is held through silence, but not for ever
NO_DATA_AFTER_NS = 10 * MINUTE_NS
EXPECTED_MISSING = 20  # requests that the hour before would have brought meanwhile
BUSY_PARTS = 10  # of the twelve of that hour: a burst is no traffic to be expected


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
            rule: The tier.
            counts: Of its objective.
            now_ns: The time.
            alert_fires: Whether a tier of this severity did at the last step: then one that
                is not calm keeps the alert from ending.
        """
        long = counts.tally(now_ns, rule.long_ns)
        short = counts.tally(now_ns, rule.short_ns)
        objective = counts.objective
        # How much was observed, and what is usual, can only prevent; they cost more to know.
        if alert_fires or burns(objective, rule, long, short, 1.0, 0.0):
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
        coverage_ratio = counts.coverage_ratio(now_ns, rule.long_ns)
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
        silent_ns = now_ns - (counts.last_ns() or self.firing_ns)
        keep_ns = keep_firing_ns(counts.objective, rule.severity)
        over = self.calm_ns is not None and now_ns - self.calm_ns >= keep_ns
        if over or silent_ns > LONGEST_SILENCE_NS:
            self.firing_ns = self.calm_ns = None


@dataclass(slots=True, kw_only=True)
class SilenceState:
    """The silence of an objective whose requests came steadily."""

    firing_ns: int | None = None

    def step(self, counts: ObjectiveCounts, started_ns: int, now_ns: int) -> None:
        """Look how long ago the latest request was, and decide.

        Args:
            counts: Of the objective.
            started_ns: Since when the evaluator runs: before, nobody listened.
            now_ns: The time.
        """
        last_ns = counts.last_ns()
        if last_ns is None:
            self.firing_ns = None
            return
        silent_ns = now_ns - max(last_ns, started_ns)
        if not NO_DATA_AFTER_NS <= silent_ns <= LONGEST_SILENCE_NS:
            self.firing_ns = None
        elif self.firing_ns is None and _was_steady(counts, last_ns, silent_ns):
            self.firing_ns = now_ns


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


@dataclass(slots=True, kw_only=True)
class ObjectiveState:
    """The state of an objective beside its counts."""

    tiers: TierStates = field(default_factory=TierStates)
    silence: SilenceState = field(default_factory=SilenceState)
    announced: dict[str, Announced] = field(default_factory=dict)  # by name/severity

    def text(self, objective: Objective) -> str:
        """All of it, to be kept; with whose it is, for the file may forget that one."""
        return json.dumps(
            {
                "objective": asdict(objective),
                "announced": {
                    key: [began.started_ns, began.onset_ns]
                    for key, began in self.announced.items()
                },
                "silence": self.silence.firing_ns,
                "tiers": {
                    f"{rule.factor:g}": [tier.firing_ns, tier.calm_ns]
                    for rule, tier in self.tiers.of_rule.items()
                },
            }
        )

    def read(self, text: str) -> None:
        """Take up what was kept."""
        kept = json.loads(text)
        self.announced = {
            key: Announced(started_ns=started_ns, onset_ns=onset_ns)
            for key, (started_ns, onset_ns) in kept.get("announced", {}).items()
        }
        self.silence.firing_ns = kept.get("silence")
        tiers = kept.get("tiers", {})
        for rule, tier in self.tiers.of_rule.items():
            tier.firing_ns, tier.calm_ns = tiers.get(f"{rule.factor:g}", (None, None))


def _was_steady(counts: ObjectiveCounts, last_ns: int, silent_ns: int) -> bool:
    part_ns = HOUR_NS // 12
    parts = [counts.tally(last_ns - place * part_ns, part_ns - 1).total for place in range(12)]
    missing = sum(parts) * silent_ns / HOUR_NS
    return missing >= EXPECTED_MISSING and sum(map(bool, parts)) >= BUSY_PARTS
