"""The requests around a quantile."""

import numpy as np
import pytest

from latencytrace.analysis.tail.around import LEAST, MOST_READ, around
from latencytrace.model.cohorts.request_columns import Durations


def test_they_are_the_two_percent_around_it() -> None:
    durations_ns = np.random.default_rng(1).permutation(10_000)

    found = around(Durations(ns=durations_ns), 0.9)

    assert found is not None
    assert (found.requests, found.band.share_ratio) == (200, 1.0)
    assert (found.band.at_least_ns, found.band.at_most_ns) == (8_900, 9_099)


def test_at_the_end_all_of_them_lie_before_it() -> None:
    found = around(Durations(ns=np.arange(2_000)), 0.99)

    assert found is not None
    assert (found.band.at_least_ns, found.band.at_most_ns) == (1_960, 1_999)


def test_few_requests_are_not_averaged() -> None:
    assert around(Durations(ns=np.arange(LEAST - 1)), 0.5) is None
    whole = around(Durations(ns=np.arange(LEAST)), 0.5)
    assert whole is not None
    assert (whole.requests, whole.band.at_least_ns, whole.band.at_most_ns) == (10, 45, 54)


def test_all_requests_of_the_same_duration_belong_to_them() -> None:
    found = around(Durations(ns=np.full(300, 7)), 0.5)

    assert found is not None
    assert (found.requests, found.band.at_least_ns, found.band.at_most_ns) == (300, 7, 7)


def test_of_very_many_a_share_is_read() -> None:
    found = around(Durations(ns=np.full(4 * MOST_READ, 7)), 0.99)

    assert found is not None
    assert found.requests == 4 * MOST_READ
    assert found.band.share_ratio == pytest.approx(0.25)
