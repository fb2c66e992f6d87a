"""The verdict on the second side, and the shift from which on it says so."""

from enum import StrEnum
from typing import Final

AT_LEAST: Final = 0.03  # of the request's quantile before: a smaller shift does not count


class Verdict(StrEnum):
    """The verdict on the second side beside the first."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NO_CHANGE = "no_change"
    NOT_ENOUGH_DATA = "not_enough_data"
