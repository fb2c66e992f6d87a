"""Traffic that stays away: requests came steadily for an hour, and now few come or none.

A tenth is no chance where forty were to be expected, and no rhythm of a day falls so fast.
Where nearly all of what still comes is bad, the alert on the burn says more, and soon.
"""

from collections.abc import Sequence

from latencytrace.analysis.slo.burn_rate import LEAST_BAD, OUTAGE_BAD
from latencytrace.model import Severity, Tally
from latencytrace.model.objective import HOUR_NS, MINUTE_NS

LOOK_NS = 10 * MINUTE_NS  # how long requests must stay away
FAILING_NS = 5 * MINUTE_NS  # what is looked at to see whether those that come are bad
RETURN_NS = 2 * MINUTE_NS  # what is looked at to see whether they come again
PARTS, BUSY_PARTS = 12, 10  # of the hour before: a burst is no traffic to be expected
COLLAPSED_RATIO = 0.1  # of what was to be expected
RETURNED_RATIO = 0.2
LEAST_MISSING = 20  # where none came
LEAST_EXPECTED = 40  # where few came


def expected_requests(parts: Sequence[int], window_ns: int) -> float | None:
    """Return how many requests a window would bring after such an hour.

    Args:
        parts: The requests of its twelfths.
        window_ns: The window.

    Returns:
        None: they did not come steadily.
    """
    if sum(map(bool, parts)) < BUSY_PARTS:
        return None
    return sum(parts) * window_ns / HOUR_NS


def is_silent(expected: float | None) -> bool:
    """Return whether it is news that no request came where so many were to be expected."""
    return expected is not None and expected >= LEAST_MISSING


def has_collapsed(expected: float | None, look: Tally, failing: Tally) -> bool:
    """Return whether nearly all traffic is gone, and it is not failures that say so.

    Args:
        expected: How many requests the last ten minutes would have brought.
        look: What they brought.
        failing: What the last five minutes brought.
    """
    if expected is None or expected < LEAST_EXPECTED or look.total > COLLAPSED_RATIO * expected:
        return False
    burns = look.bad >= LEAST_BAD[Severity.PAGE] and failing.bad >= OUTAGE_BAD * failing.total
    return not burns


def has_returned(expected: float, recent: Tally) -> bool:
    """Return whether requests come again.

    Args:
        expected: How many requests ten minutes brought before.
        recent: What the last two minutes brought.
    """
    return recent.total > RETURNED_RATIO * expected * RETURN_NS / LOOK_NS
