"""What each tier of an objective does over time: fires, holds, ends."""

from dataclasses import dataclass, field

from latencytrace.analysis.burn_rate import burn_rate, burns, is_calm, keep_firing_ns
from latencytrace.model import BurnRates, BurnRule, Tally
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.objective_counts import ObjectiveCounts

LONGEST_SILENCE_NS = DAY_NS  # an alert is held through silence, but not for ever
NO_DATA_AFTER_NS = 10 * MINUTE_NS
EXPECTED_MISSING = 20  # requests that the hour before would have brought meanwhile
BUSY_PARTS = 10  # of the twelve of that hour: a burst is no traffic to be expected


@dataclass(slots=True, kw_only=True)
class TierState:
    """Since when a tier fires, and since when it is calm."""

    firing_ns: int | None = None
    calm_ns: int | None = None

    def step(self, rule: BurnRule, counts: ObjectiveCounts, now_ns: int) -> BurnRates:
        """Look at the two windows of the tier, and decide."""
        long = counts.tally(now_ns, rule.long_ns)
        short = counts.tally(now_ns, rule.short_ns)
        objective = counts.objective
        # How much was observed can only lower the rate, and costs more to know than all else.
        suspicious = self.firing_ns is not None or burns(objective, rule, long, short, 1.0)
        if suspicious:
            coverage_ratio = counts.coverage_ratio(now_ns, rule.long_ns)
            self._decide(rule, counts, (long, short), coverage_ratio, now_ns)
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
        coverage_ratio: float,
        now_ns: int,
    ) -> None:
        long, short = windows
        if burns(counts.objective, rule, long, short, coverage_ratio):
            self.firing_ns = now_ns if self.firing_ns is None else self.firing_ns
            self.calm_ns = None
            return
        if self.firing_ns is None:
            return
        calm = is_calm(counts.objective, rule, long, short, coverage_ratio)
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
    """Since when nothing is heard of an objective whose requests came steadily."""

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
class ObjectiveState:
    """What an objective remembers beside its counts."""

    tiers: dict[BurnRule, TierState] = field(default_factory=dict)
    silence: SilenceState = field(default_factory=SilenceState)
    announced: dict[str, int] = field(default_factory=dict)  # alert's name/severity → start


def _was_steady(counts: ObjectiveCounts, last_ns: int, silent_ns: int) -> bool:
    part_ns = HOUR_NS // 12
    parts = [counts.tally(last_ns - place * part_ns, part_ns - 1).total for place in range(12)]
    missing = sum(parts) * silent_ns / HOUR_NS
    return missing >= EXPECTED_MISSING and sum(map(bool, parts)) >= BUSY_PARTS
