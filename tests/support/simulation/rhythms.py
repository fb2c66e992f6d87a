"""Simulated weeks in which nothing is wrong, and what the service says of their quiet hours."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.slo.over_time import rolling
from latencytrace.analysis.slo.traffic import LOOK_NS
from latencytrace.model import Objective, Tally
from latencytrace.model.objective import HOUR_NS, MINUTE_NS
from latencytrace.service.objectives.counts import ObjectiveCounts
from latencytrace.service.objectives.state import SilenceState
from tests.support.simulation.incidents import START_NS

DAYS = 28
DAY_MIN = 24 * 60
Minutes = NDArray[np.float64]  # of the day, without end
Rhythm = Callable[[Minutes, np.random.Generator], Minutes]  # what of the usual rate comes in each


def _waves(minutes: Minutes, _: np.random.Generator) -> Minutes:
    return 1 + 0.8 * np.sin(2 * np.pi * minutes / DAY_MIN)


def _nights(minutes: Minutes, _: np.random.Generator) -> Minutes:
    """Within two hours traffic falls to a fiftieth, and so it comes again."""
    hour = minutes % DAY_MIN / 60
    return np.asarray(0.02 ** np.clip(np.minimum((hour - 20) / 2, (30 - hour) / 2), 0, 1))


def _office(minutes: Minutes, chance: np.random.Generator) -> Minutes:
    """On five days a week, from nine to six, each time ten minutes earlier or later."""
    days = (minutes // DAY_MIN).astype(int)
    begins, ends = (60 * hour + chance.uniform(-10, 10, DAYS) for hour in (9, 18))
    at = minutes % DAY_MIN
    return np.where((begins[days] <= at) & (at < ends[days]) & (days % 7 < 5), 1.0, 0.0)


def _batch(minutes: Minutes, _: np.random.Generator) -> Minutes:
    """Two hours each night thirty times as much as otherwise."""
    return np.where((minutes % DAY_MIN) // 120 == 1, 3.0, 0.1)


RHYTHMS: Final[Mapping[str, Rhythm]] = {
    "waves of a day": _waves,
    "nights at a fiftieth": _nights,
    "office hours": _office,
    "a batch each night": _batch,
}


def notices(seed: int, objective: Objective, per_s: float, rhythm: Rhythm) -> list[int]:
    """The minutes in which requests were said to stay away.

    Args:
        seed: Of its chance.
        objective: Whose requests they are.
        per_s: Requests a second, usually.
        rhythm: What of that comes when.
    """
    chance = np.random.default_rng(seed)
    minutes = np.arange(DAYS * DAY_MIN, dtype=np.float64)
    total = chance.poisson(60 * per_s * rhythm(minutes, chance))
    look = LOOK_NS // MINUTE_NS
    both = look + HOUR_NS // MINUTE_NS
    quiet = 2 * rolling(total, look) * both <= rolling(total, both + look) * look
    counts, silence = ObjectiveCounts(objective), SilenceState()
    found: list[int] = []
    for place, came in enumerate(total.tolist()):
        now_ns = START_NS + place * MINUTE_NS
        if came:
            counts.rings.add(now_ns, Tally(bad=0, total=came))
        if quiet[place] or silence.firing_ns is not None:
            before = silence.firing_ns
            silence.step(counts, START_NS, now_ns, page_fires=False)
            if before is None and silence.firing_ns is not None:
                found.append(place)
    return found
