"""A simulated month or two of requests with incidents whose truth is known.

Poisson arrivals with a day's rhythm, some bad requests always, short blips that harm nobody,
and incidents of every share of bad requests and length, at random moments. An incident is
significant if it takes at least 2 % of a 30 days' budget: those should page, and no other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.analysis.slo.over_time import rolling
from latencytrace.model import BurnRule, Objective, Severity, Tally
from latencytrace.service.objectives.counts import ObjectiveCounts
from latencytrace.service.objectives.state import TierState, TierStates
from latencytrace.service.objectives.tally_ring import FINE_NS

STEP_NS = 60 * 10**9
START_NS = 1_763_690_000 * 10**9 // STEP_NS * STEP_NS
USUAL_BAD = 0.002
BLIPS_A_DAY = 4
SHARES = (0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
LENGTHS_MIN = (3, 10, 30, 120, 480)
SIGNIFICANT = 0.02  # of the budget of 30 days
MARGIN_MIN = 400  # between two incidents
_DAY_MIN = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Bad requests for a while."""

    start_min: int
    end_min: int
    bad_ratio: float
    spent_ratio: float  # of the budget of 30 days

    @property
    def is_significant(self) -> bool:
        """Whether it must page."""
        return self.spent_ratio >= SIGNIFICANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What happened each minute, and why."""

    total: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    bad: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    incidents: tuple[Incident, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How well pages told incidents that matter."""

    significant: int
    found: int  # of those
    pages: int
    right: int  # of those: on a significant incident
    detection_min: tuple[int, ...]

    @property
    def recall(self) -> float:
        """The share of significant incidents that paged."""
        return self.found / self.significant

    @property
    def precision(self) -> float:
        """The share of pages on significant incidents; a page on a minor one is wrong."""
        return self.right / self.pages

    def __add__(self, other: "Score") -> "Score":
        return Score(
            significant=self.significant + other.significant,
            found=self.found + other.found,
            pages=self.pages + other.pages,
            right=self.right + other.right,
            detection_min=self.detection_min + other.detection_min,
        )


def simulated(seed: int, days: int, per_s: float, objective: Objective) -> Simulated:
    """One run; the same for the same seed."""
    chance = np.random.default_rng(seed)
    minutes = np.arange(days * _DAY_MIN)
    rate = 60 * per_s * (1 + 0.8 * np.sin(2 * np.pi * minutes / _DAY_MIN))
    share = np.full(len(minutes), USUAL_BAD)
    for start in chance.integers(0, len(minutes), BLIPS_A_DAY * days):
        share[start : start + chance.integers(1, 4)] += chance.uniform(0.05, 0.3)
    budget = objective.budget_ratio * 60 * per_s * 30 * _DAY_MIN
    incidents = []
    for start, (bad_ratio, length) in zip(
        _starts(chance, len(minutes)), _kinds(chance), strict=False
    ):
        share[start : start + length] += bad_ratio
        spent = bad_ratio * rate[start : start + length].sum() / budget
        incidents.append(
            Incident(
                start_min=start,
                end_min=start + length,
                bad_ratio=bad_ratio,
                spent_ratio=float(spent),
            )
        )
    total = chance.poisson(rate)
    bad = chance.binomial(total, np.minimum(share, 1.0))
    return Simulated(total=total, bad=bad, incidents=tuple(incidents))


def pages(
    run: Simulated, objective: Objective, rules: Iterable[BurnRule] | None = None
) -> list[tuple[int, int]]:
    """The minutes in which a page of these tiers, or of all, began and ended."""
    minutes = zip(run.bad.tolist(), run.total.tolist(), strict=True)
    watched = burn_rules(objective) if rules is None else rules
    return decided(minutes, objective, watched, STEP_NS)


def decided(
    steps: Iterable[tuple[int, int]],
    objective: Objective,
    rules: Iterable[BurnRule],
    step_ns: int,
    every: int = 1,
) -> list[tuple[int, int]]:
    """The steps in which a page began and ended, by the service's own decisions.

    Args:
        steps: Bad and all requests in each.
        objective: Whose they are.
        rules: The tiers that watch it.
        step_ns: How long each takes.
        every: How many there are from one evaluation to the next.
    """
    counts = ObjectiveCounts(objective)
    pages = {rule: TierState() for rule in rules if rule.severity is Severity.PAGE}
    tiers = TierStates(of_rule=pages)
    whole = list(steps)
    suspicious = _suspicious(whole, objective, list(pages), step_ns)
    found: list[tuple[int, int]] = []
    began: int | None = None
    for place, (bad, total) in enumerate(whole):
        now_ns = START_NS + place * step_ns
        if total:
            counts.rings.add(now_ns, Tally(bad=bad, total=total))
        if place % every or (began is None and not suspicious[place]):
            continue  # a tier that does not fire, and cannot, stays as it is
        fires = any(rates.firing for rates in tiers.step(counts, now_ns))
        if fires and began is None:
            began = place
        elif not fires and began is not None:
            found.append((began, place))
            began = None
    return found if began is None else [*found, (began, -1)]


def _suspicious(
    steps: Sequence[tuple[int, int]], objective: Objective, rules: Sequence[BurnRule], step_ns: int
) -> list[bool]:
    """Return whether a tier could fire at each step: most of a month is calm."""
    bad, total = (np.array([step[which] for step in steps], np.int64) for which in (0, 1))
    found = np.zeros(len(steps), np.bool_)
    for rule in rules:
        over = np.ones(len(steps), np.bool_)
        for window_ns in (rule.long_ns, rule.short_ns):
            length = (window_ns + FINE_NS) // step_ns + 1
            least = 0.99 * rule.factor * objective.budget_ratio
            over &= rolling(bad, length) > least * rolling(total, length)
        found |= over
    return found.tolist()


def score(run: Simulated, found: Sequence[tuple[int, int]]) -> Score:
    """Hold pages to the truth; one on an incident begins until half an hour after it."""
    by_incident = {
        incident: [
            began for began, _ in found if incident.start_min <= began <= incident.end_min + 30
        ]
        for incident in run.incidents
    }
    significant = [incident for incident in run.incidents if incident.is_significant]
    told = [incident for incident in significant if by_incident[incident]]
    return Score(
        significant=len(significant),
        found=len(told),
        pages=len(found),
        right=sum(len(by_incident[incident]) for incident in significant),
        detection_min=tuple(min(by_incident[one]) - one.start_min for one in told),
    )


def _starts(chance: np.random.Generator, minutes: int) -> Iterator[int]:
    """Moments far enough apart, from the second day on."""
    kinds = len(SHARES) * len(LENGTHS_MIN)
    room = (minutes - _DAY_MIN) // kinds
    for place in range(kinds):
        start = _DAY_MIN + place * room
        yield int(start + chance.integers(0, max(1, room - max(LENGTHS_MIN) - MARGIN_MIN)))


def _kinds(chance: np.random.Generator) -> list[tuple[float, int]]:
    """Every share with every length, in any order."""
    kinds = list(product(SHARES, LENGTHS_MIN))
    return [kinds[place] for place in chance.permutation(len(kinds))]
