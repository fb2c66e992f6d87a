"""Traffic that stays away: requests came steadily for an hour, and now few come or none.

A tenth is no chance where forty were to be expected, nor none where eighteen were: below one in
ten million in each look. Where it was as quiet at this time of day on both days before, it is
the rhythm of the service. Where nearly all of what still comes is bad, the alert
on the burn says more, and soon.
"""

from collections.abc import Sequence

from latencytrace.analysis.slo.burn_rate import LEAST_BAD, OUTAGE_BAD
from latencytrace.model import Severity, Tally
from latencytrace.model.objective import HOUR_NS, MINUTE_NS

LOOKS_NS = tuple(minutes * MINUTE_NS for minutes in (10, 17, 30))  # requests stay away for
LOOK_NS = LOOKS_NS[0]
FAILING_NS = 5 * MINUTE_NS  # what is looked at to see whether requests that come are bad
RETURN_NS = 2 * MINUTE_NS  # what is looked at to see whether they come again
PARTS, BUSY_PARTS = 12, 10  # of the hour before: a burst is no traffic to be expected
COLLAPSED_RATIO = 0.1  # of what was to be expected
RETURNED_RATIO, LEAST_RETURNED = 0.2, 2.5  # the latter, or a stray request would be a return
LEAST_MISSING = 18  # where none came
MISSING_OF_EACH = 3  # more, for each request that came
LULL_DAYS = 2


def expected_requests(parts: Sequence[int]) -> float | None:
    """Return how many requests ten minutes would bring after such an hour.

    Returns:
        None: they did not come steadily.
    """
    if sum(map(bool, parts)) < BUSY_PARTS:
        return None
    return sum(parts) * LOOK_NS / HOUR_NS


def has_collapsed(expected: float, came: int, look_ns: int) -> bool:
    """Return whether far fewer came than chance explains.

    Args:
        expected: How many requests ten minutes would have brought.
        look_ns: Length of the window, in ns.
    """
    expected *= look_ns / LOOK_NS
    missing = expected - LEAST_MISSING
    return MISSING_OF_EACH * came <= missing and came <= COLLAPSED_RATIO * expected


def mostly_fails(look: Tally, failing: Tally) -> bool:
    """Return whether the few requests fail, so that the alert on the burn says it.

    Args:
        look: What the last ten minutes brought.
        failing: What the last five minutes brought.
    """
    return look.bad >= LEAST_BAD[Severity.PAGE] and failing.bad >= OUTAGE_BAD * failing.total


def has_returned(expected: float, recent: Tally) -> bool:
    """Return whether requests come again.

    Args:
        expected: How many requests ten minutes brought before.
        recent: What the last two minutes brought.
    """
    return recent.total > max(RETURNED_RATIO * expected * RETURN_NS / LOOK_NS, LEAST_RETURNED)
